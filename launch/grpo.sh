#!/usr/bin/env bash
# Trains a planner with GRPO on this machine: bash launch/grpo.sh CONFIG [settings]; see launch/train.sh.
#   bash launch/grpo.sh pocket --train_data DATA/grpo.jsonl --adapter runs/sft --output_dir runs/grpo
#   ACCELERATE=zero3 bash launch/grpo.sh qwen3vl_8b --train_data DATA/grpo.jsonl --adapter runs/sft --output_dir runs/grpo
exec bash "$(dirname "$0")/train.sh" grpo "$@"
