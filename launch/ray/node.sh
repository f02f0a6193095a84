#!/usr/bin/env bash
# A run on one machine with several GPUs: bash launch/ray/node.sh --benchmark NAME --root DIR --model MODEL --output RUN ...
# One worker a GPU, with the machine's CPUs divided among them. WORKERS and CPUS set other numbers.
# Ray is started for the command, and ends with it.
set -euo pipefail
unset RAY_ADDRESS
gpus=$(nvidia-smi --list-gpus | wc -l)
if [ "$gpus" = 0 ]; then
    echo "error: nvidia-smi lists no GPU; on a machine without one, use launch/ray/laptop.sh" >&2
    exit 2
fi
workers=${WORKERS:-$gpus}
videopro infer "$@" --engine ray --ray "workers=$workers" "cpus=${CPUS:-$(($(nproc) / workers))}" gpus=1
