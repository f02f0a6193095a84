#!/usr/bin/env bash
# What planners gain from a confidence of reasoned letters (docs/results/methods/confidence.md), on the pocket world and a CPU:
# a teacher half of whose programs reason their letter, planners fine-tuned on the rows that its programs give when such
# letters are as sure as the calls that decided them, and when they are guesses (the rule of earlier versions), and both
# after GRPO with rewards by the same rule. Three seeds. Ends with two tables. If it is stopped, re-run the same command to
# resume; each table is also written as soon as its runs are there.
#   bash launch/reasoned.sh [FOLDER]      default: runs/reasoned
# WORKERS is the number of processes that train or answer in parallel (default 2); RULE the rule that is compared (default
# product); ADAPTER a planner that SFT starts from, such as pocket-sft (default: a new adapter); ASKED the number of questions
# in the SFT data, EPOCHS its epochs; STEPS those of GRPO (0: without it), PROMPTS the questions of its prompts, the taught
# ones included; TEST the number of test questions.
set -euo pipefail
folder=${1:-runs/reasoned}
source "$(dirname "$0")/setup.sh" train
source launch/pocket_parts.sh
workers=${WORKERS:-2} rule=${RULE:-product} asked=${ASKED:-60} epochs=${EPOCHS:-16} steps=${STEPS:-40} prompts=${PROMPTS:-360}
adapter=${ADAPTER:-} seeds=${SEEDS:-"0 1 2"} test="--limit ${TEST:-110}"
rules="none $rule"

# The same programs under both rules: the teacher is offline, and draws them from the questions.
for each in $rules; do
    videopro synthesize --config configs/synthesis/pocket.yaml --teacher pocket-teacher:logic --limit "$asked" \
        --reasoned-confidence "$each" --output "$folder/synthesis-$each"
done

by_rule() { # NAME RULE SEED PLANNER: answer as this rule has it
    local written="$written reasoned_confidence=$2"
    # shellcheck disable=SC2086 # several words
    plan "$1-$2-$3" videopro test "$4" $test
}

compare() { # NAME: the planners of both rules, before and after refinement; those of the earlier rule are the baseline
    echo "$1: right before and after refinement, against the earlier rule"
    table "$1-first" native "guesses=$(of_seeds first: "$1-none")" "reasoned ($rule)=$(of_seeds first: "$1-$rule")"
    table "$1-refined" native "guesses=$(of_seeds "" "$1-none")" "reasoned ($rule)=$(of_seeds "" "$1-$rule")"
}

# shellcheck disable=SC2086 # several words
answer native native test $test
for seed in $seeds; do
    for each in $rules; do
        echo "finetune sft-$each-$seed synthesis-$each/sft.jsonl $seed --num_train_epochs $epochs" \
            "${adapter:+--adapter $adapter}"
    done
done | side_by_side
for seed in $seeds; do
    for each in $rules; do by_rule few "$each" "$seed" "sft-$each-$seed"; done
done
compare few
if [ "$steps" = 0 ]; then exit 0; fi

# GRPO on prompts about other questions: of these only the letters and the modes are used, which no rule changes.
videopro synthesize --config configs/synthesis/pocket.yaml --limit "$prompts" --programs 1 --refinements 0 \
    --output "$folder/prompts"
grep -o '"question_id": "[^"]*"' "$folder/synthesis-none/grpo.jsonl" | sort -u > "$folder/prompts/taught.txt"
grep -v -F -f "$folder/prompts/taught.txt" "$folder/prompts/grpo.jsonl" | grep '"kind": "plan"' > "$folder/unseen.jsonl"
for seed in $seeds; do
    for each in $rules; do
        form=equation
        if [ "$each" = none ]; then form=strict; fi # By the earlier rule a guess is malformed too.
        echo "reinforce grpo-$each-$seed sft-$each-$seed unseen.jsonl $seed --max_steps $steps" \
            "--reasoned_confidence $each --form $form"
    done
done | side_by_side
for seed in $seeds; do
    for each in $rules; do by_rule after "$each" "$seed" "grpo-$each-$seed"; done
done
compare after
