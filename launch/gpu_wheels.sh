#!/usr/bin/env bash
# Gathers the wheels that a GPU machine without a package registry lacks: bash launch/gpu_wheels.sh PRESENT [FOLDER]
# PRESENT is the output of "python3 -m pip list --format=freeze" on that machine; FOLDER is .wheels by default.
# TARGET_PYTHON is that machine's Python (3.12). Carry the folder there with the checkout; launch/gpu_check.sh uses it.
set -euo pipefail
present=$(realpath "${1:?pass the output of pip list --format=freeze from the GPU machine}")
cd "$(dirname "$0")/.."
folder=${2:-.wheels}
source launch/setup.sh train,deepspeed
python -m perf.battery.wheels "$present" --python "${TARGET_PYTHON:-3.12}" > "$folder.txt"
mkdir -p "$folder"
# DeepSpeed is published as source alone; built without its operators it is pure Python. Either list may be empty.
{ grep -v '^deepspeed==' "$folder.txt" || true; } | xargs -r python -m pip download --quiet --no-deps --only-binary=:all: \
    --implementation cp --python-version "${TARGET_PYTHON:-3.12}" \
    $(for minor in 17 24 27 28 31 34 35; do echo "--platform manylinux_2_${minor}_x86_64"; done) \
    --platform manylinux2014_x86_64 --dest "$folder"
{ grep '^deepspeed==' "$folder.txt" || true; } | DS_BUILD_OPS=0 xargs -r python -m pip wheel --quiet --no-deps --wheel-dir "$folder"
rm "$folder.txt"
du -sh "$folder"
