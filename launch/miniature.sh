#!/usr/bin/env bash
# Walks the road of `bash launch/reproduce.sh paper` on two cores: bash launch/miniature.sh [FOLDER]   (default: runs/miniature)
# FOLDER gets films with speech in the official formats of five benchmarks, a hub's cache with a checkpoint of every class, and
# OUTPUT; a teacher answers behind HTTP. Re-run the same command to resume. What it then checks: tests/support/miniature/checks.py.
set -euo pipefail
folder=$(realpath -m "${1:-runs/miniature}")
source "$(dirname "$0")/setup.sh" test,perf
export HF_HOME=$folder/hub HF_HUB_OFFLINE=1
export VIDEOPRO_CACHE=$folder/cache OMP_NUM_THREADS=1
python -m tests.support.miniature "$folder"

# Kept: the teacher's address is a setting of the synthesis, which a resumed one may not change.
if [ ! -f "$folder/port" ]; then
    python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' > "$folder/port"
fi
port=$(cat "$folder/port")
python -m tests.support.miniature.teacher "$port" &
teacher=$!
trap 'kill "$teacher" 2> /dev/null || true' EXIT

EXTRAS=test,perf bash launch/reproduce.sh miniature --data "$folder/data" --output "$folder/output" \
    --synthesize "teacher=api:narrator-1@http://127.0.0.1:$port/v1" --yes
python -m tests.support.miniature.checks "$folder"
