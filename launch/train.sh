#!/usr/bin/env bash
# Trains a planner on this machine: bash launch/train.sh sft|grpo CONFIG [settings]
# CONFIG is a name in configs/sft or configs/grpo. ACCELERATE names a file in configs/accelerate; by default
# one_cpu without a GPU, one_gpu with one, multi_gpu with several.
set -euo pipefail
stage=${1:?give sft or grpo}
config=${2:?give a name in configs/$stage, such as pocket}
shift 2
source "$(dirname "$0")/setup.sh" train

gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" -gt 1 ]; then way=multi_gpu; elif [ "$gpus" -eq 1 ]; then way=one_gpu; else way=one_cpu; fi
way=${ACCELERATE:-$way}
accelerate launch --config_file "configs/accelerate/$way.yaml" \
    --num_processes "$([ "$gpus" -gt 1 ] && [ "$way" != one_gpu ] && echo "$gpus" || echo 1)" \
    "train/$stage.py" --config "configs/$stage/$config.yaml" "$@"
