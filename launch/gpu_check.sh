#!/usr/bin/env bash
# Checks everything that needs a GPU, with random weights and generated videos: bash launch/gpu_check.sh [PART...]
# Parts: a SFT step, b generation, c packed update, d GRPO step, e log-probs, f inference, g encoder, h DeepSpeed,
# j an engine's step, k changing lengths, l all modules, i engines. Re-run it to continue. SHAPES is 8b (on a GPU), 2b or
# tiny (on a CPU). On a machine without a package registry, gather the wheels first (launch/gpu_wheels.sh): they are used
# if the folder WHEELS (.wheels) is there.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=${WHEELS:-.wheels}
if [ -d "$wheels" ]; then
    python=${PYTHON:-python3}
    site=${SITE:-${TMPDIR:-/tmp}/videopro-site}
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$site" "$wheels"/*.whl
    export PYTHONPATH="$PWD:$site"
else
    source launch/setup.sh train,deepspeed
    python=python
fi
"$python" -m perf.gpu ${SHAPES:+--shapes "$SHAPES"} ${RESULTS:+--output "$RESULTS"} ${WORK:+--work "$WORK"} "$@"
