#!/usr/bin/env bash
# Every table and figure of the paper in shape, on a fixed subset of the pocket test split: runs what they need,
# then reports from the folders. Under 20 minutes on two cores; stopped at any time, the same command goes on.
#   bash launch/paper_tables.sh [FOLDER]     (default: runs/paper_tables)
# QUESTIONS is how many are asked (default 110), WORKERS how many processes ask them (default 2). Programs are the
# offline teacher's; ADAPTER=FOLDER has a fine-tuned planner of the pocket model write them instead.
set -euo pipefail
folder=${1:-runs/paper_tables}
source "$(dirname "$0")/setup.sh" report

if [ -n "${ADAPTER:-}" ]; then
    planner=(--backbone "adapter=$ADAPTER")
    strategy=$(basename "$ADAPTER")
else
    planner=(--planner pocket-teacher)
    strategy=teacher
fi

answer() { # NAME METHOD [settings]
    local name=$1 method=$2
    shift 2
    python -m videopro.infer --benchmark pocket --split test --model pocket --limit "${QUESTIONS:-110}" \
        --workers "${WORKERS:-2}" --method "$method" --output "$folder/$name" "$@"
}

answer native native
for method in program adaptive; do
    answer "$strategy-$method" "$method" "${planner[@]}"
done
# Refinements up to 0.9 are stored, so that Figure 4 needs no run for each tau.
answer "$strategy-videopro" videopro "${planner[@]}" --refine-below 0.9
for group in retrieval localization extraction context; do
    answer "$strategy-without-$group" adaptive "${planner[@]}" --without "$group"
done

python -m videopro.report "$folder" --published --title "The paper's tables on pocket" --output "$folder/report"
