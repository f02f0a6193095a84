#!/usr/bin/env bash
# The paper's Table 4 on the pocket world and a CPU: a planner fine-tuned on few trajectories, then trained with GRPO on
# prompts about other questions, whose trajectories it never sees. Ends with a table. If it is stopped, re-run the same
# command to resume.
#   bash launch/pocket_grpo.sh [FOLDER]          continues the results of launch/pocket.sh (default: runs/pocket)
#   bash launch/pocket_grpo.sh --full [FOLDER]   planners of 60 questions, three seeds, the whole test split, with
#                                                two-turn episodes and controls at equal compute
# WORKERS is the number of processes that train or answer in parallel (default 2). With --full: ASKED is the number of
# questions in the SFT data, EPOCHS its epochs; GRPO takes ROUNDS rounds of STEPS steps, and a round of each control takes
# about as long. The tables were made with 60, 16, 2 and 40; those of planners that stopped early with 240, 4, 1 and 30
# (docs/results/grpo.md).
set -euo pipefail
full=""
if [ "${1:-}" = --full ]; then full=yes; shift; fi
folder=${1:-runs/pocket}
source "$(dirname "$0")/setup.sh" train
source launch/pocket_parts.sh
workers=${WORKERS:-2}
if [ -n "$full" ]; then
    taught=taught from=few asked=${ASKED:-60} epochs=${EPOCHS:-16} all=720 seeds="0 1 2" test=""
    rounds=${ROUNDS:-2} round_steps=${STEPS:-40} steps=$((${ROUNDS:-2} * ${STEPS:-40}))
else
    taught=synthesis from=sft asked=132 epochs=6 all=264 steps=8 seeds="0" test="--limit 110"
fi
prompts=prompts/unseen.jsonl

# The questions of the SFT data, and others: a larger limit selects a superset of a smaller one.
synthesize "$taught" "$asked"
if [ ! -d "$folder/prompts" ]; then
    rm -rf "$folder/prompts.part"
    cp -r "$folder/$taught" "$folder/prompts.part"
    mv "$folder/prompts.part" "$folder/prompts"
fi
synthesize prompts "$all"
grep -o '"question_id": "[^"]*"' "$folder/$taught/grpo.jsonl" | sort -u > "$folder/prompts/taught.txt"
# Plans only: with refinements among the prompts the same time gains less (docs/results/grpo.md).
grep -v -F -f "$folder/prompts/taught.txt" "$folder/prompts/grpo.jsonl" | grep '"kind": "plan"' > "$folder/$prompts"

for seed in $seeds; do
    echo "finetune $from-$seed $taught/sft.jsonl $seed --num_train_epochs $epochs"
done | side_by_side

# What each seed's planner becomes, by name: GRPO; with --full also GRPO in two-turn episodes, and two controls that take
# about as long as GRPO in every round: SFT on the same rows for as many epochs again, and SFT on its own right programs
# for the prompts that GRPO sees. With several rounds also GRPO after a first round on its own right programs.
after="grpo"
if [ -n "$full" ]; then
    after="grpo two-turn more own"
    if [ "$rounds" -gt 1 ]; then after+=" both"; fi
fi
declare -A said=([sft]="SFT" [few]="SFT" [grpo]="SFT + GRPO" [two-turn]="SFT + GRPO, two turns"
    [more]="more SFT" [own]="SFT on its own right programs"
    [both]="SFT on its own right programs, then GRPO")
rounds_of() { # NAME SEED: the input and output of each round; the last output is NAME-SEED
    local before=$from-$2 name round
    for round in $(seq "$rounds"); do
        name=$1-$2
        if [ "$round" -lt "$rounds" ]; then name=$1-round-$round-$2; fi
        echo "$before $name"
        before=$name
    done
}
{
    for seed in $seeds; do echo "reinforce grpo-$seed $from-$seed $prompts $seed --max_steps $steps"; done
    if [ -n "$full" ]; then
        for seed in $seeds; do
            echo "reinforce two-turn-$seed $from-$seed $prompts $seed --max_steps $steps --episodes two_turn"
            again="$seed --learning_rate 1e-3 --num_train_epochs"
            rounds_of more "$seed" | while read -r before name; do
                echo -n "finetune $name $taught/sft.jsonl $again $epochs --adapter $folder/$before; "
            done
            echo
            rounds_of own "$seed" | while read -r before name; do
                echo -n "resample $name $before $prompts $again 1; "
            done
            if [ "$rounds" -gt 1 ]; then
                echo -n "reinforce both-$seed own-round-1-$seed $prompts $seed --max_steps $((steps - round_steps))"
            fi
            echo
        done
    fi
} | side_by_side

compare() { # NAME...: first and refined answers of each; the first name is the baseline
    local first=() refined=()
    for name in "$@"; do
        first+=("${said[$name]}=$(of_seeds first: "$name-videopro")")
        refined+=("${said[$name]}=$(of_seeds "" "$name-videopro")")
    done
    echo "Before refinement, against ${said[$1]}"
    table "first-against-$1" native "${first[@]}"
    echo "After refinement, against ${said[$1]}"
    table "refined-against-$1" native "${refined[@]}"
}

# shellcheck disable=SC2086 # $test may be empty or two words
answer native native test $test
for name in $from $after; do
    for seed in $seeds; do
        # shellcheck disable=SC2086
        plan "$name-videopro-$seed" videopro test "$name-$seed" $test
    done
done
# shellcheck disable=SC2086 # several names
compare $from $after
# shellcheck disable=SC2086
if [ -n "$full" ]; then compare $after; fi
