#!/usr/bin/env bash
# Walks the road of `bash launch/reproduce.sh paper` on two cores: bash launch/miniature.sh [FOLDER] [pilot]
# (default: runs/miniature). With pilot: the pilot, and a walk of up to five times its rows, for perf/pilot.py.
# FOLDER gets films with speech in five benchmarks' files as the hub has them, a hub's cache with a checkpoint of every class, and
# OUTPUT; a teacher answers behind HTTP. Then GRPO once more, with the planner's own failures as prompts, and under DeepSpeed;
# and where a real engine is installed (launch/live.sh), GRPO and one method's answers once more by it.
# Re-run the same command to resume. ENGINE (.engine): the folder of the engine's environment.
# What is then checked: tests/support/miniature/checks.py.
set -euo pipefail
folder=$(realpath -m "${1:-runs/miniature}")
source "$(dirname "$0")/setup.sh" test,perf
export HF_HOME=$folder/hub HF_HUB_OFFLINE=1 EASYOCR_MODULE_PATH=$folder/easyocr
export VIDEOPRO_CACHE=$folder/cache OMP_NUM_THREADS=1
python -m tests.support.miniature "$folder"

free_port() { python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# Kept: the teacher's address is a setting of the synthesis, which a resumed one may not change.
if [ ! -f "$folder/port" ]; then free_port > "$folder/port"; fi
port=$(cat "$folder/port")
python -m tests.support.miniature.teacher "$port" &
started=$!
trap 'kill $started 2> /dev/null || true' EXIT

reproduce() { EXTRAS=test,perf bash launch/reproduce.sh miniature --data "$folder/data" --yes "$@"; }
teacher=(--synthesize "teacher=api:narrator-1@http://127.0.0.1:$port/v1")
if [ "${2:-}" = pilot ]; then
    whole=(--output "$folder/whole" "${teacher[@]}" --limit 10 --sft-settings max_steps=20 --grpo-settings max_steps=20)
    reproduce "${whole[@]}" --pilot
    reproduce "${whole[@]}"
    exit
fi
reproduce --output "$folder/output" "${teacher[@]}" --pilot
reproduce --output "$folder/output" "${teacher[@]}"

# The same road without a teacher, from the adapter on.
PYTHONPATH=tests/support/miniature/cpu_as_gpu:. reproduce --output "$folder/planner" --sft-adapter "$folder/output/sft" \
    --grpo-prompts planner --synthesize limit=8 --modules ocr=easyocr:en --accelerate zero2 --grpo-settings use_cpu=false \
    --merge --only prompts grpo merge

engine=$(realpath -m "${ENGINE:-.engine}")
if [ -x "$engine/bin/python" ]; then
    reproduce --output "$folder/engine" --sft-adapter "$folder/output/sft" \
        --grpo-data "$folder/output/synthesis/grpo.jsonl" --grpo-settings sampler=vllm "vllm={program: $engine}" \
        --benchmarks lvbench --tables 1 \
        --infer engine=vllm "vllm={program: $engine}" --only grpo infer
else
    echo "No engine in $engine (bash launch/live.sh installs one); skipping the stages with an engine."
fi

python -m tests.support.miniature.checks "$folder"
