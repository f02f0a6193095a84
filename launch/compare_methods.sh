#!/usr/bin/env bash
# Every method at equal frame budgets: runs native, program, adaptive, videopro and the four agents on one benchmark, and ends
# with a table and the figure of accuracy against frames and tokens. If it is stopped, re-run the same command to resume.
#   bash launch/compare_methods.sh [FOLDER] [settings of every run]          pocket, 132 questions (default: runs/compare)
#   BENCHMARK=lvbench SPLIT=test MODEL=Qwen/Qwen3-VL-8B-Instruct LIMIT= bash launch/compare_methods.sh runs/lvbench --root DATA
# BUDGETS    frames a call (default 8 16 32 64; on pocket 4 8 16, since its model was trained with 16)
# METHODS    which methods (default: all eight)         PRESET   settings of the agents: equal (default) or paper
# LLM, CAPTIONER, VQA       models of VideoAgent and DVD, as --options llm=... takes them (default: the model itself)
# AGENTS     LVAgent's two to four different models, with spaces (default on pocket: its shipped ones)
# PLANNER    adapter that writes programs (default on pocket: pocket-sft)        VCA_ADAPTER   adapter that explores
# LIMIT      questions (default 132; empty: all)         WORKERS  worker processes (default 2)
# Indexes, databases and videos of pocket are made in FOLDER/cache, so that what building them costs is measured.
set -euo pipefail
folder=${1:-runs/compare}
shift || true
source "$(dirname "$0")/setup.sh" report
model=${MODEL:-pocket} benchmark=${BENCHMARK:-pocket} split=${SPLIT:-test} preset=${PRESET:-equal}
limit=${LIMIT-132} language_options=()
known="native program adaptive videopro videoagent dvd vca lvagent"
read -ra methods <<< "${METHODS:-$known}"
for method in "${methods[@]}"; do
    if [[ " $known " != *" $method "* ]]; then
        echo "error: unknown method '$method' in METHODS; known: $known" >&2
        exit 2
    fi
done
planner=${PLANNER:-} explorer=${VCA_ADAPTER:-} agents=${AGENTS:-}
if [ "$model" = pocket ]; then
    budgets=${BUDGETS:-4 8 16}
    planner=${planner:-pocket-sft}
    # The adapters of agents that this version ships; without them the pocket model itself is asked.
    shipped() { python -c "from videopro.pocket import adapter_dir; adapter_dir('$1')" 2> /dev/null; }
    if shipped pocket-vca; then explorer=${explorer:-pocket-vca}; fi
    if shipped pocket-lv-looks; then
        agents=${agents:-pocket+pocket-lv-looks pocket+pocket-lv-times pocket+pocket-lv-words}
    fi
    # The replies of its adapters are short and were taught greedily; VCA's can be read in the first two rounds only. Without an
    # adapter the model does not stop by itself, and a longer reply is no easier to read.
    vca_options=(temperature=0 max_new_tokens=200 max_rounds=2) lvagent_options=(max_new_tokens=64)
    [ -n "$explorer" ] || vca_options=(temperature=0 max_new_tokens=64)
    [ -n "${LLM:-}" ] || language_options=(max_new_tokens=64)
else
    budgets=${BUDGETS:-8 16 32 64}
    vca_options=() lvagent_options=()
fi
mkdir -p "$folder/cache"
VIDEOPRO_CACHE=$(realpath "$folder/cache")
export VIDEOPRO_CACHE
left_out=()

answer() { # BUDGET METHOD ADAPTER [options]: one run, on the settings of the command line
    local budget=$1 method=$2 adapter=$3 options=("${@:4}")
    local settings=(--backbone "frames=$budget" ${adapter:+"adapter=$adapter"})
    if [ "$model" = pocket ] && [ "$adapter" = "$planner" ]; then settings+=(batch_size=12); fi
    settings+=(--options "${options[@]}")
    [ "${#options[@]}" -gt 0 ] || unset "settings[-1]"
    videopro infer --benchmark "$benchmark" --split "$split" --model "$model" ${limit:+--limit "$limit"} \
        --workers "${WORKERS:-2}" --method "$method" --output "$folder/$budget/$method" "${settings[@]}" "${given[@]}"
}

given=("$@")
roles=(${LLM:+"llm=$LLM"} ${CAPTIONER:+"captioner=$CAPTIONER"})
for budget in $budgets; do
    for method in "${methods[@]}"; do
        case $method in
            native) answer "$budget" native "" ;;
            program | adaptive | videopro)
                # All questions of a video are planned in one batch, greedily, as when the planner was chosen on val.
                answer "$budget" "$method" "$planner" max_parallel=12 temperature=0 ;;
            videoagent) answer "$budget" videoagent "" "preset=$preset" "${language_options[@]}" "${roles[@]}" ;;
            dvd) answer "$budget" dvd "" "preset=$preset" "${language_options[@]}" "${roles[@]}" ${VQA:+"vqa=$VQA"} ;;
            vca) answer "$budget" vca "$explorer" "preset=$preset" "${vca_options[@]}" ${LLM:+"llm=$LLM"} ;;
            lvagent)
                if [ -z "$agents" ]; then
                    left_out+=("lvagent at $budget frames: name two to four different models in AGENTS")
                    continue
                fi
                answer "$budget" lvagent "" "preset=$preset" "agents=[${agents// /,}]" "${lvagent_options[@]}" ;;
        esac
    done
done

runs=()
for method in "${methods[@]}"; do
    if [ -f "$folder/${budgets##* }/$method/summary.json" ]; then runs+=("$folder/${budgets##* }/$method"); fi
done
videopro compare "${runs[@]}"
all=()
for budget in $budgets; do all+=("$folder/$budget"); done
videopro report "${all[@]}" --tables costs main pairs runs \
    --title "Methods at equal budgets: $benchmark $split, $model" --output "$folder/report"
for reason in "${left_out[@]}"; do echo "left out: $reason"; done
echo "next: videopro view $folder/${budgets##* }/${methods[-1]}    its agents' steps for each question"
