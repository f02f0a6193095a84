#!/usr/bin/env bash
# Two Ray workers on this machine answer 20 questions of the pocket world: bash launch/ray/laptop.sh [settings of infer]
# Ray is started for the command, and ends with it. The same line without --engine ray goes on with the same run.
set -euo pipefail
unset RAY_ADDRESS
videopro infer --benchmark pocket --split test --limit 20 --model pocket --output runs/ray-laptop \
    --engine ray --ray workers=2 cpus=1 gpus=0 "$@"
