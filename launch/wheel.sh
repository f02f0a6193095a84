#!/usr/bin/env bash
# Builds the wheel, installs it with its dependencies into a new environment, and runs what
# users type first there, outside the checkout: first without any extra, then with report and train. Prints
# what ran and how long it took. Needs a network for pip, 10 GB of disk, and 15 minutes on two cores.
# Usage: bash launch/wheel.sh [FOLDER]     (FOLDER keeps the environment and the runs; else they are deleted)
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
if [ -n "${1:-}" ]; then
    mkdir -p "$1"
    place=$(cd "$1" && pwd)
else
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
fi
table="$place/table.txt"
: > "$table"
failed=0

# run STATUS COMMAND...: runs a command, which has to end with this status, and notes how long it took.
run() {
    local expected=$1 status=0 started seconds
    shift
    printf '\n$ %s\n' "$*"
    started=$(date +%s)
    "$@" > "$place/said.txt" 2>&1 < /dev/null || status=$?
    seconds=$(($(date +%s) - started))
    if [ "$status" -eq "$expected" ]; then
        tail -n 5 "$place/said.txt"
    else
        cat "$place/said.txt"
        failed=1
    fi
    printf '%-6s %5d s   %s\n' "$status" "$seconds" "${*//$place\//}" >> "$table"
}

# In a copy, because the build writes into its folder.
mkdir "$place/source" "$place/work"
tar -C "$checkout" --exclude=__pycache__ -cf - videopro modules train data_synthesis configs \
    pyproject.toml README.md LICENSE | tar -C "$place/source" -xf -
"$python" -m venv "$place/env"
export PATH="$place/env/bin:$PATH"
unset PYTHONPATH
pip="python -m pip --quiet --disable-pip-version-check"
cd "$place/work"
run 0 $pip wheel --no-deps "$place/source" --wheel-dir "$place"
wheel=$(ls "$place"/videopro-*.whl)
run 0 $pip install "$wheel"
run 0 python -c 'import videopro; assert "site-packages" in videopro.__file__; print(videopro.__file__)'

# Nothing is fetched from here on but, later, the packages of two extras.
export HF_HUB_OFFLINE=1 VIDEOPRO_CACHE="$place/cache"
run 0 videopro --version
run 0 videopro --help
run 0 videopro benchmarks list
run 0 videopro models
run 0 videopro compare --config pocket --limit 22 --output runs/compare
run 0 videopro infer --benchmark pocket --method native --model pocket --limit 22 --output runs/native
run 0 videopro infer --benchmark pocket --method videopro --planner pocket-teacher --model pocket --limit 22 \
    --output runs/videopro
run 0 videopro compare runs/native runs/videopro
run 0 videopro seeds native=runs/native videopro=runs/videopro --final last --fallback none
run 0 videopro view runs/videopro
film=$(find "$VIDEOPRO_CACHE" -name '*.mp4' | sort | head -n 1)
run 0 videopro ask "$film" "What is the weather?" --choices rainy sunny snowy foggy --model pocket
run 0 videopro ask pocket:test/long_013 "At the temple there is a sign. What does it say?" \
    --choices TOYS RADIO BOOKS OPEN --model pocket --method videopro --planner pocket-teacher --seed 0
run 0 videopro index "$film" --encoder pocket --query "a ring at the beach"
# Without their extras these say in one line what to install; help needs none.
run 2 videopro report runs/native runs/videopro
run 2 videopro sft --config pocket --train_data rows.jsonl --output_dir runs/sft
run 0 videopro grpo --help

run 0 $pip install "$wheel[report,train]"
run 0 videopro report runs/native runs/videopro --output runs/report
run 0 videopro report runs/videopro --export inspect --output runs/inspect
run 0 videopro synthesize --config pocket --limit 22 --output runs/synth
run 0 videopro sft --config pocket --train_data runs/synth/sft.jsonl --output_dir runs/sft --max_steps 4
run 0 accelerate launch --num_processes 1 --cpu -m videopro.train.sft --config pocket \
    --train_data runs/synth/sft.jsonl --output_dir runs/sft-launched --max_steps 2
run 0 videopro grpo --config pocket --adapter runs/sft --train_data runs/synth/grpo.jsonl \
    --output_dir runs/grpo --max_steps 2
run 0 videopro infer --benchmark pocket --method videopro --model pocket --backbone adapter=runs/grpo \
    --limit 22 --output runs/tuned

printf '\nstatus  time     command\n'
cat "$table"
exit "$failed"
