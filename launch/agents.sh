#!/usr/bin/env bash
# Runs the snippets of docs/tools.md against smolagents, LangGraph and verifiers, and a local server of OpenAI's
# protocol. The libraries go into .agents, an environment over .venv: they need other versions of some packages than ours.
# Usage: bash launch/agents.sh [further arguments for pytest]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source launch/setup.sh test

packages=(smolagents==1.26.0 langchain==1.3.14 langchain-openai==1.7.4 verifiers==0.4.0 uv==0.13.9)
if [ "$(cat .agents/.installed 2>/dev/null)" != "${packages[*]}" ]; then
    rm -rf .agents
    .venv/bin/python -m venv .agents
    # What is not in .agents is taken from .venv, with the files there that name further folders.
    ours=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    theirs=$(.agents/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "import site; site.addsitedir('$ours')" > "$theirs/zz_project.pth"
    echo "Installing ${packages[*]} into .agents (once) ..."
    .agents/bin/python -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" > .agents/.installed
fi
.agents/bin/python -m pytest tests/modules/tools/test_page.py -rs "$@"
