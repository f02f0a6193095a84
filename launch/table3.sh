#!/usr/bin/env bash
# Table 3 with planners that are shown which modules are there: training data in which questions do without a group of
# modules, a planner for each seed, and the test questions with all modules and without each group.
# If it is stopped, re-run the same command to resume.
#   bash launch/table3.sh [FOLDER]                    (default: runs/table3)
#   QUESTIONS=110 SEEDS="0" bash launch/table3.sh     a subset of test, one seed
# ASKED is the number of questions in the SFT data (default 1600), EPOCHS its epochs (default: those of the config), WORKERS
# the number of processes that train or answer in parallel (default 2).
set -euo pipefail
folder=${1:-runs/table3}
source "$(dirname "$0")/setup.sh" train
source launch/pocket_parts.sh
workers=${WORKERS:-2} seeds=${SEEDS:-0 1 2} epochs=${EPOCHS:+--num_train_epochs $EPOCHS}

videopro synthesize --config configs/synthesis/pocket.yaml --limit "${ASKED:-1600}" --reference signatures --drop-modules 0.6 \
    --output "$folder/synthesis"
for seed in $seeds; do echo "finetune sft-$seed synthesis/sft.jsonl $seed $epochs"; done | side_by_side
for seed in $seeds; do
    plan "all-$seed" adaptive test "sft-$seed" --limit "${QUESTIONS:-726}" --fallback native
    for group in retrieval localization extraction context; do
        plan "without-$group-$seed" adaptive test "sft-$seed" --limit "${QUESTIONS:-726}" --fallback native --without "$group"
    done
done
answer native native test --limit "${QUESTIONS:-726}"
rows=("all modules=$(of_seeds "" all)")
for group in retrieval localization extraction context; do rows+=("without $group=$(of_seeds "" "without-$group")"); done
table table3 native "${rows[@]}"
