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
if [ -n "$full" ]; then
    asked=1600 seeds="0 1 2" test="" steps=30 epochs=1
else
    asked=132 seeds="0" test="--limit 110" steps=3 epochs=6
fi
prompts=$((16 * steps)) # what GRPO sees in so many steps

synthesize() {
    python -m data_synthesis.run --config configs/synthesis/pocket.yaml --limit "$asked" --output "$folder/synthesis"
}

# Lines of commands from standard input, side by side, each on its share of the cores: small models gain little from
# more threads.
side_by_side() {
    export -f finetune reinforce resample
    export folder prompts
    local threads=$(($(nproc) / workers > 0 ? $(nproc) / workers : 1))
    OMP_NUM_THREADS=$threads xargs -P "$workers" -d '\n' -I{} bash -euc '{}'
}

finetune() { # NAME ROWS SEED [settings]
    local name=$1 rows=$2 seed=$3
    shift 3
    if [ -f "$folder/$name/adapter_model.safetensors" ]; then return; fi
    accelerate launch --config_file configs/accelerate/one_cpu.yaml train/sft.py --config configs/sft/pocket.yaml \
        --train_data "$folder/$rows" --seed "$seed" --output_dir "$folder/$name" "$@"
}

reinforce() { # NAME SEED [settings]: goes on with the planner of this seed
    local name=$1 seed=$2
    shift 2
    if [ -f "$folder/$name/adapter_model.safetensors" ]; then return; fi
    accelerate launch --config_file configs/accelerate/one_cpu.yaml train/grpo.py --config configs/grpo/pocket.yaml \
        --adapter "$folder/sft-$seed" --train_data "$folder/synthesis/grpo.jsonl" --seed "$seed" \
        --output_dir "$folder/$name" "$@"
}

# The control that trains on the policy's own right programs, sampled from as many prompts as GRPO sees.
resample() { # SEED
    local own="$folder/own-$1.jsonl"
    if [ ! -f "$own" ]; then
        shuf -n "$prompts" --random-source=<(yes "$1") "$folder/synthesis/grpo.jsonl" \
            > "$folder/own-$1-prompts.jsonl"
        python -m train.rejection --model pocket --adapter "$folder/sft-$1" --data "$folder/own-$1-prompts.jsonl" \
            --temperature 0.7 --max-new-tokens 512 --seed "$1" --output "$own"
    fi
    finetune "own-$1" "own-$1.jsonl" "$1" --adapter "$folder/sft-$1" --learning_rate 1e-3 --num_train_epochs 1
}

answer() { # NAME METHOD SPLIT [settings]
    local name=$1 method=$2 split=$3
    shift 3
    python -m videopro.infer --benchmark pocket --model pocket --workers "$workers" --method "$method" \
        --split "$split" --output "$folder/$name" "$@"
}

plan() { # NAME METHOD SPLIT PLANNER: answer, by the programs of this planner
    # shellcheck disable=SC2086 # no word where there is no limit
    answer "$1" "$2" "$3" $test $written --backbone "adapter=$folder/$4" batch_size=12
}

always_steps() { # the planners of all seeds, had they always taken several steps
    local runs=""
    for seed in $seeds; do runs+=",steps:$folder/videopro-$seed+$folder/program-$seed"; done
    echo "${runs#,}"
}

of_seeds() { # PREFIX NAME: the runs of all seeds, as videopro.seeds takes them
    local runs=""
    for seed in $seeds; do runs+=",$1$folder/$2-$seed"; done
    echo "${runs#,}"
}

table() { # NAME NATIVE ROW... [settings]
    local name=$1 native=$2
    shift 2
    python -m videopro.seeds "native=$folder/$native" "$@" --oracle "$folder/$native" \
        --output "$folder/table-$name.json"
}

synthesize
{
    for seed in $seeds; do echo "finetune sft-$seed synthesis/sft.jsonl $seed --num_train_epochs $epochs"; done
    if [ -n "$full" ]; then
        grep -v "\"family\": \"$unseen\"" "$folder/synthesis/sft.jsonl" > "$folder/synthesis/sft-without-$unseen.jsonl"
        echo "finetune sft-without-$unseen synthesis/sft-without-$unseen.jsonl 0 --num_train_epochs $epochs"
    fi
} | side_by_side

# shellcheck disable=SC2086 # no word where there is no limit
answer native native test $test
for seed in $seeds; do
    plan "program-$seed" program test "sft-$seed"
    plan "videopro-$seed" videopro test "sft-$seed"
done
if [ -n "$full" ]; then
    answer heldout-native native test-heldout
    for seed in $seeds; do plan "heldout-videopro-$seed" videopro test-heldout "sft-$seed"; done
    plan unseen-videopro videopro test "sft-without-$unseen"
    echo "Held-out phrasings"
    table heldout heldout-native "adaptive=$(of_seeds first: heldout-videopro)" \
        "adaptive + refinement=$(of_seeds "" heldout-videopro)" "the surer of both=$(of_seeds best: heldout-videopro)"
    echo "The family '$unseen', trained without it and with it"
    table unseen native "without: adaptive=first:$folder/unseen-videopro" \
        "without: + refinement=$folder/unseen-videopro" "without: the surer=best:$folder/unseen-videopro" \
        "with: adaptive=$(of_seeds first: videopro)" "with: + refinement=$(of_seeds "" videopro)" --family "$unseen"
    echo "Test split"
fi
table test native "asked for programs=$(of_seeds "" program)" "always several steps=$(always_steps)" \
    "adaptive=$(of_seeds first: videopro)" "adaptive + refinement=$(of_seeds "" videopro)" \
    "the surer of both=$(of_seeds best: videopro)"

if [ -z "$grpo" ]; then exit; fi

# What each seed's planner becomes, by name: reinforced, and in full also in episodes of two turns, by more of the
# same rows for about as long as GRPO takes (two trainings side by side on two cores: its steps of 128 replies took
# 95 s, those of SFT 1.5 s), and by its own right programs.
after="grpo"
if [ -n "$full" ]; then after="grpo two-turn more own"; fi
{
    for seed in $seeds; do echo "reinforce grpo-$seed $seed --max_steps $steps"; done
    if [ -n "$full" ]; then
        for seed in $seeds; do
            echo "reinforce two-turn-$seed $seed --max_steps $steps --episodes two_turn"
            echo "finetune more-$seed synthesis/sft.jsonl $seed --adapter $folder/sft-$seed --learning_rate 1e-3" \
                "--max_steps $((63 * steps))"
            echo "resample $seed"
        done
    fi
} | side_by_side
rows=("SFT=$(of_seeds first: videopro)" "SFT + refinement=$(of_seeds "" videopro)")
for name in $after; do
    for seed in $seeds; do plan "$name-videopro-$seed" videopro test "$name-$seed"; done
    rows+=("$name=$(of_seeds first: "$name-videopro")" "$name + refinement=$(of_seeds "" "$name-videopro")")
done
curves=()
for seed in $seeds; do curves+=("$folder/grpo-$seed"); done
python -m train.curves "${curves[@]}" --output "$folder"
table grpo native "${rows[@]}"
