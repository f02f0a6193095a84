#!/usr/bin/env bash
# Trains a planner on this machine: bash launch/train.sh sft|grpo CONFIG [settings]
# CONFIG is a name in videopro/configs/sft or videopro/configs/grpo, or a YAML file. ACCELERATE names a file in
# videopro/configs/accelerate (zero2 and zero3 install the extra deepspeed too); by default one_cpu without a GPU, one_gpu with
# one, multi_gpu with several. PROCESSES: how many train, on the first GPUs; by default one on each GPU (GRPO's engine_gpus need
# fewer).
set -euo pipefail
stage=${1:?pass sft or grpo}
name=${2:?give the name of a config, such as pocket}
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
case "$name" in *.yaml | *.yml) if [ -f "$name" ]; then name=$(realpath "$name"); fi ;; esac
cd "$here"
source launch/training_config.sh
config=$(find_config "$stage" "$name")
if [ -n "${ACCELERATE:-}" ]; then find_config accelerate "$ACCELERATE" > /dev/null; fi
source launch/setup.sh "$(training_extras)"

gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" -gt 1 ]; then way=multi_gpu; elif [ "$gpus" -eq 1 ]; then way=one_gpu; else way=one_cpu; fi
way=${ACCELERATE:-$way}
processes=${PROCESSES:-$((gpus > 1 ? gpus : 1))}
case "$way" in one_*) processes=1 ;; esac
accelerate launch --config_file "$(find_config accelerate "$way")" --num_processes "$processes" \
    "train/$stage.py" --config "$config" "$@"
