#!/usr/bin/env bash
# Sets up, then answers questions of the pocket test split with the shipped models, directly and with programs, and
# compares the two. Arguments go to videopro.compare, for example: bash launch/demo.sh --limit 726 --output runs/all
set -euo pipefail
source "$(dirname "$0")/setup.sh" "" # "": no extra. Without an argument, source would pass on this script's own
python -m videopro.compare --config configs/compare/pocket.yaml "$@"
