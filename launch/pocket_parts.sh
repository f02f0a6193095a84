# The steps of launch/pocket.sh and launch/pocket_grpo.sh; sourced by them, with folder, workers and seeds set. Every step
# skips what already exists, so that a script that was stopped can be re-run.

# All questions of a video are planned in one batch. Greedy programs are right more often than sampled ones (on val).
written="--options max_parallel=12 temperature=0"

synthesize() { # NAME QUESTIONS
    videopro synthesize --config configs/synthesis/pocket.yaml --limit "$2" --output "$folder/$1"
}

# Runs lines of commands from standard input in parallel, each on its share of the cores: small models gain little from
# more threads.
side_by_side() {
    export -f finetune reinforce resample
    export folder
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

reinforce() { # NAME ADAPTER PROMPTS SEED [settings]
    local name=$1 adapter=$2 prompts=$3 seed=$4
    shift 4
    if [ -f "$folder/$name/adapter_model.safetensors" ]; then return; fi
    accelerate launch --config_file configs/accelerate/one_cpu.yaml train/grpo.py --config configs/grpo/pocket.yaml \
        --adapter "$folder/$adapter" --train_data "$folder/$prompts" --seed "$seed" --output_dir "$folder/$name" "$@"
}

# Rejection sampling: fine-tunes the policy on its own right programs for these prompts.
resample() { # NAME ADAPTER PROMPTS SEED [settings]
    local name=$1 adapter=$2 prompts=$3 seed=$4
    shift 4
    if [ ! -f "$folder/$name.jsonl" ]; then
        videopro rejection --model pocket --adapter "$folder/$adapter" --data "$folder/$prompts" \
            --temperature 0.4 --max-new-tokens 512 --batch-size 96 --seed "$seed" --output "$folder/$name.jsonl"
    fi
    finetune "$name" "$name.jsonl" "$seed" --adapter "$folder/$adapter" "$@"
}

answer() { # NAME METHOD SPLIT [settings]
    local name=$1 method=$2 split=$3
    shift 3
    videopro infer --benchmark pocket --model pocket --workers "$workers" --method "$method" \
        --split "$split" --output "$folder/$name" "$@"
}

plan() { # NAME METHOD SPLIT PLANNER [settings]: answer with this planner's programs
    local name=$1 method=$2 split=$3 planner=$4
    shift 4
    # shellcheck disable=SC2086 # several words
    answer "$name" "$method" "$split" "$@" $written --backbone "adapter=$folder/$planner" batch_size=12
}

of_seeds() { # PREFIX NAME: the runs of all seeds, as videopro seeds takes them
    local runs=""
    for seed in $seeds; do runs+=",$1$folder/$2-$seed"; done
    echo "${runs#,}"
}

table() { # NAME NATIVE ROW... [settings]: the first row is the baseline
    local name=$1 native=$2
    shift 2
    videopro seeds "$@" --oracle "$folder/$native" --output "$folder/$name.json" "$folder/$name.md"
}
