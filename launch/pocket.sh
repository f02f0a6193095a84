#!/usr/bin/env bash
# The whole pipeline on the pocket world and a CPU: trajectories from the offline teacher, a planner fine-tuned on them, an
# evaluation next to the native method, and a table. If it is stopped, re-run the same command to resume.
#   bash launch/pocket.sh [FOLDER]           a fixed subset, one seed (default: runs/pocket)
#   bash launch/pocket.sh --full [FOLDER]    1,600 questions, three seeds, the whole test split, held-out phrasings,
#                                            and a family that training never saw
#   bash launch/pocket.sh --grpo [FOLDER]    GRPO on top of the subset's planner (launch/pocket_grpo.sh);
#                                            --full --grpo: three seeds, two-turn episodes and the controls
# SEEDS are the seeds of training (default: 0, with --full 0 1 2), WORKERS the number of processes that train or answer in
# parallel (default 2).
set -euo pipefail
full="" grpo=""
while [[ "${1:-}" == --* ]]; do
    case "$1" in
        --full) full=yes ;;
        --grpo) grpo=yes ;;
        *) echo "pocket.sh: unknown option $1; options are --full and --grpo" >&2; exit 2 ;;
    esac
    shift
done
folder=${1:-runs/pocket}
if [ -n "$grpo" ]; then exec bash "$(dirname "$0")/pocket_grpo.sh" ${full:+--full} "$folder"; fi
source "$(dirname "$0")/setup.sh" train
source launch/pocket_parts.sh
workers=${WORKERS:-2}
unseen=order # the family held out in the last part
if [ -n "$full" ]; then
    asked=1600 seeds=${SEEDS:-0 1 2} test="" epochs=1
else
    asked=132 seeds=${SEEDS:-0} test="--limit 110" epochs=6
fi

always_steps() { # the runs of all seeds as if every question took several steps, as videopro seeds takes them
    local runs=""
    for seed in $seeds; do runs+=",steps:$folder/videopro-$seed+$folder/program-$seed"; done
    echo "${runs#,}"
}

synthesize synthesis "$asked"
{
    for seed in $seeds; do echo "finetune sft-$seed synthesis/sft.jsonl $seed --num_train_epochs $epochs"; done
    if [ -n "$full" ]; then
        grep -v "\"family\": \"$unseen\"" "$folder/synthesis/sft.jsonl" > "$folder/synthesis/sft-without-$unseen.jsonl"
        echo "finetune sft-without-$unseen synthesis/sft-without-$unseen.jsonl 0 --num_train_epochs $epochs"
    fi
} | side_by_side

# shellcheck disable=SC2086 # $test may be empty or two words
answer native native test $test
for seed in $seeds; do
    # shellcheck disable=SC2086
    plan "program-$seed" program test "sft-$seed" $test
    # shellcheck disable=SC2086
    plan "videopro-$seed" videopro test "sft-$seed" $test
done
if [ -n "$full" ]; then
    answer heldout-native native test-heldout
    for seed in $seeds; do plan "heldout-videopro-$seed" videopro test-heldout "sft-$seed"; done
    plan unseen-videopro videopro test "sft-without-$unseen"
    echo "Held-out phrasings"
    table heldout heldout-native "native=$folder/heldout-native" "adaptive=$(of_seeds first: heldout-videopro)" \
        "adaptive + refinement=$(of_seeds "" heldout-videopro)" "the more confident of the two answers=$(of_seeds best: heldout-videopro)"
    echo "The family '$unseen', trained without it and with it"
    table unseen native "native=$folder/native" "without: adaptive=first:$folder/unseen-videopro" \
        "without: + refinement=$folder/unseen-videopro" "with: adaptive=$(of_seeds first: videopro)" "with: + refinement=$(of_seeds "" videopro)" --family "$unseen"
    echo "Test split"
fi
table test native "native=$folder/native" "asked for programs=$(of_seeds "" program)" \
    "always several steps=$(always_steps)" "adaptive=$(of_seeds first: videopro)" "adaptive + refinement=$(of_seeds "" videopro)" \
    "the more confident of the two answers=$(of_seeds best: videopro)"
