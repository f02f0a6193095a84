#!/usr/bin/env bash
# The whole way on the pocket world and a CPU: trajectories from the offline teacher, a planner fine-tuned on them,
# and both evaluated; ends with a table. Stopped at any time, the same command goes on.
#   bash launch/pocket.sh [FOLDER]           a fixed subset, one seed (default: runs/pocket)
#   bash launch/pocket.sh --grpo [FOLDER]    and goes on: the planner reinforced, evaluated beside what it was
#   bash launch/pocket.sh --full [FOLDER]    1,600 questions, three seeds, the whole test split, held-out phrasings,
#                                            and a family that training never saw; --full --grpo: with the controls
# WORKERS is the number of processes that train or answer side by side (default 2).
set -euo pipefail
full="" grpo=""
while [[ "${1:-}" == --* ]]; do
    case "$1" in
        --full) full=yes ;;
        --grpo) grpo=yes ;;
        *) echo "pocket.sh: there is no $1; give --full, --grpo or a folder" >&2; exit 2 ;;
    esac
    shift
done
folder=${1:-runs/pocket}
source "$(dirname "$0")/setup.sh" train
workers=${WORKERS:-2}
unseen=order # the family that the last part leaves out
# All questions of a video are planned in one batch. Greedy programs are right more often than sampled ones (on val).
written="--options together=12 temperature=0"
if [ -n "$full" ]; then asked=1600 seeds="0 1 2" test=""; else asked=132 seeds="0" test="--limit 110"; fi

synthesize() {
    python -m data_synthesis.run --config configs/synthesis/pocket.yaml --limit "$asked" --output "$folder/synthesis"
}

train() { # NAME ROWS SEED
    if [ -f "$folder/$1/adapter_model.safetensors" ]; then return; fi
    accelerate launch --config_file configs/accelerate/one_cpu.yaml train/sft.py --config configs/sft/pocket.yaml \
        --train_data "$2" --seed "$3" --output_dir "$folder/$1"
}

# Side by side, each on its share of the cores: small models gain little from more threads.
train_all() {
    export OMP_NUM_THREADS=$(($(nproc) / workers > 0 ? $(nproc) / workers : 1))
    local jobs=()
    for seed in $seeds; do jobs+=("sft-$seed $folder/synthesis/sft.jsonl $seed"); done
    if [ -n "$full" ]; then
        grep -v "\"family\": \"$unseen\"" "$folder/synthesis/sft.jsonl" > "$folder/synthesis/sft-without-$unseen.jsonl"
        jobs+=("sft-without-$unseen $folder/synthesis/sft-without-$unseen.jsonl 0")
    fi
    export -f train
    export folder
    printf '%s\n' "${jobs[@]}" | xargs -P "$workers" -I{} bash -euc 'train {}'
    unset OMP_NUM_THREADS
}

answer() { # NAME METHOD SPLIT [settings]
    local name=$1 method=$2 split=$3
    shift 3
    python -m videopro.infer --benchmark pocket --model pocket --workers "$workers" --method "$method" \
        --split "$split" --output "$folder/$name" "$@"
}

table() { # SPLIT PREFIX
    local first="" refined="" best="" program=""
    for seed in $seeds; do
        first+=",first:$folder/$2videopro-$seed" refined+=",$folder/$2videopro-$seed"
        best+=",best:$folder/$2videopro-$seed" program+=",$folder/$2program-$seed"
    done
    python -m videopro.seeds "native=$folder/$2native" "always program=${program#,}" "adaptive=${first#,}" \
        "adaptive + refinement=${refined#,}" "the surer of both=${best#,}" \
        --oracle "$folder/$2native" --output "$folder/table-$1.json"
}

evaluate() { # SPLIT PREFIX
    # shellcheck disable=SC2086 # no word where there is no limit
    answer "$2native" native "$1" $test
    for seed in $seeds; do
        for method in program videopro; do
            # shellcheck disable=SC2086
            answer "$2$method-$seed" "$method" "$1" $test $written --backbone "adapter=$folder/sft-$seed" batch_size=12
        done
    done
}

synthesize
train_all
evaluate test ""
if [ -n "$full" ]; then
    evaluate test-heldout heldout-
    # shellcheck disable=SC2086
    answer unseen-videopro videopro test $written --backbone "adapter=$folder/sft-without-$unseen" batch_size=12
    echo "Held-out phrasings"
    table test-heldout heldout-
    echo "Trained without the family '$unseen'"
    python -m videopro.seeds "native=$folder/native" "without $unseen=first:$folder/unseen-videopro" \
        "without $unseen + refinement=$folder/unseen-videopro" "the surer of both=best:$folder/unseen-videopro" \
        --oracle "$folder/native" --output "$folder/table-unseen.json"
    echo "Test split"
fi
table test ""
