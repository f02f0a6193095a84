#!/usr/bin/env bash
# Fine-tunes a planner on this machine: bash launch/sft.sh CONFIG [settings]
# CONFIG is a name in configs/sft. ACCELERATE names a file in configs/accelerate; by default one_cpu without
# a GPU, one_gpu with one, multi_gpu with several.
#   bash launch/sft.sh pocket --train_data DATA/sft.jsonl --output_dir runs/sft
#   ACCELERATE=zero3 bash launch/sft.sh qwen3vl_8b --train_data DATA/sft.jsonl --output_dir runs/sft
set -euo pipefail
config=${1:?give a name in configs/sft, such as pocket}
shift
source "$(dirname "$0")/setup.sh" train

gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" -gt 1 ]; then way=multi_gpu; elif [ "$gpus" -eq 1 ]; then way=one_gpu; else way=one_cpu; fi
way=${ACCELERATE:-$way}
accelerate launch --config_file "configs/accelerate/$way.yaml" \
    --num_processes "$([ "$gpus" -gt 1 ] && [ "$way" != one_gpu ] && echo "$gpus" || echo 1)" \
    train/sft.py --config "configs/sft/$config.yaml" "$@"
