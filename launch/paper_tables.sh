#!/usr/bin/env bash
# Every table and figure of the paper in shape, on a fixed subset of the pocket test split: runs what they need,
# then reports from the folders. Eight minutes on two cores; stopped at any time, re-run the same command to resume.
#   bash launch/paper_tables.sh [FOLDER]                    (default: runs/paper_tables)
#   QUESTIONS=726 bash launch/paper_tables.sh FOLDER        the whole split, for figures to record
# WORKERS is how many processes ask (default 2). Programs are the shipped planner's; ADAPTER=FOLDER names another
# planner of the pocket model.
set -euo pipefail
folder=${1:-runs/paper_tables}
source "$(dirname "$0")/setup.sh" report
adapter=${ADAPTER:-pocket-sft}
strategy=$(basename "$adapter")
# All questions of a video are planned in one batch; greedily, as the planner was judged on val.
planner=(--backbone "adapter=$adapter" batch_size=12 --options max_parallel=12 temperature=0)

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
