#!/usr/bin/env bash
# Sets up, then answers questions of the pocket test split with the shipped models, directly and by programs,
# and compares the two. Arguments go to videopro.compare, as in: bash launch/demo.sh --limit 726 --output runs/all
set -euo pipefail
source "$(dirname "$0")/setup.sh" "" # without an extra; with no word at all it would read the arguments above
python -m videopro.compare --config configs/compare/pocket.yaml "$@"
