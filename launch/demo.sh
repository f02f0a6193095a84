#!/usr/bin/env bash
# Sets up, then answers questions about the first videos of the pocket test split with the shipped model.
# Arguments go to videopro.infer, for example: bash launch/demo.sh --limit 726 --output runs/all
set -euo pipefail
source "$(dirname "$0")/setup.sh"
python -m videopro.infer --config configs/infer/pocket.yaml "$@"
