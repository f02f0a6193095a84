#!/usr/bin/env bash
# The tests of training and Qwen models at the oldest supported TRL and transformers, each beside the newest of the other.
# Not a part of CI: it installs them, into a temporary folder that lies over .venv. TRL 1.15 computes its loss by Triton
# wherever that is installed, so its steps need a GPU; without one, only the methods that are overridden are compared.
#   bash launch/ends.sh [pytest arguments]     default: tests/train, tests/backbones/qwen without those of several processes
set -euo pipefail
source "$(dirname "$0")/setup.sh" test
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ $# -gt 0 ] || set -- tests/train tests/backbones/qwen -m "not two_processes" -q
pip install --quiet --no-deps --target "$folder/trl" "trl==1.15.*"
# With what it needs: its Hub client, for one, is older than the one of the newest transformers.
pip install --quiet --target "$folder/transformers" "transformers==5.18.*"
if command -v nvidia-smi > /dev/null; then
    PYTHONPATH="$folder/trl:$PWD" python -m pytest "$@"
else
    PYTHONPATH="$folder/trl:$PWD" python -m pytest tests/train/test_private_methods.py
fi
PYTHONPATH="$folder/transformers:$PWD" python -m pytest "$@"
