#!/usr/bin/env bash
# Makes .venv and installs the project into it. Does nothing if pyproject.toml has not changed since.
# Usage: source launch/setup.sh [EXTRA]     (PYTHON names an interpreter other than python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${1:-}
stamp=".venv/.installed-${extra:-plain}"
want=$(cksum pyproject.toml)

if [ ! -x .venv/bin/python ]; then
    python=${PYTHON:-}
    for candidate in python3 python3.12 python3.13 python3.11; do
        [ -n "$python" ] && break
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$candidate
        fi
    done
    if [ -z "$python" ]; then
        echo "error: no Python 3.11, 3.12 or 3.13 found: install one, or name it with PYTHON=/path/to/python" >&2
        exit 2
    fi
    "$python" -m venv .venv
fi

if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    echo "Installing into .venv (once; about 5 GB with PyTorch, a few minutes) ..."
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
    echo "$want" > "$stamp"
fi
export PATH="$PWD/.venv/bin:$PATH"
