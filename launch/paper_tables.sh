#!/usr/bin/env bash
# Reproduces every table and figure of the paper on a fixed subset of the pocket test split: makes the runs, then a report.
# If it is stopped, re-run the same command to resume.
#   bash launch/paper_tables.sh [FOLDER]                    (default: runs/paper_tables)
#   QUESTIONS=726 bash launch/paper_tables.sh FOLDER        the whole split, as recorded in docs/results
# WORKERS is the number of worker processes (default 2). Programs come from the shipped planner; ADAPTER=FOLDER names
# another planner for the pocket model.
set -euo pipefail
folder=${1:-runs/paper_tables}
source "$(dirname "$0")/setup.sh" report
adapter=${ADAPTER:-pocket-sft}
strategy=$(basename "$adapter")
# All questions of a video are planned in one batch, greedily, as when the planner was chosen on val.
planner=(--backbone "adapter=$adapter" batch_size=12 --options max_parallel=12 temperature=0)

answer() { # NAME METHOD [settings]
    local name=$1 method=$2
    shift 2
    videopro infer --benchmark pocket --split test --model pocket --limit "${QUESTIONS:-110}" \
        --workers "${WORKERS:-2}" --method "$method" --output "$folder/$name" "$@"
}

answer native native
for method in program adaptive; do
    answer "$strategy-$method" "$method" "${planner[@]}"
done
# Store refinements up to 0.9, so that Figure 4 does not need a run per tau.
answer "$strategy-videopro" videopro "${planner[@]}" --refine-below 0.9
for group in retrieval localization extraction context; do
    answer "$strategy-without-$group" adaptive "${planner[@]}" --without "$group"
done

videopro report "$folder" --published --title "The paper's tables on pocket" --output "$folder/report"
