#!/usr/bin/env bash
# Fine-tunes a planner on this machine: bash launch/sft.sh CONFIG [settings]; see launch/train.sh.
#   bash launch/sft.sh pocket --train_data DATA/sft.jsonl --output_dir runs/sft
#   ACCELERATE=zero3 bash launch/sft.sh qwen3vl_8b --train_data DATA/sft.jsonl --output_dir runs/sft
exec bash "$(dirname "$0")/train.sh" sft "$@"
