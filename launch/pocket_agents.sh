#!/usr/bin/env bash
# Pocket models for the prompts of VCA and LVAgent: trains their adapters, and runs both methods next to the native one at the
# same number of frames a call. Everything is made from seeds; if it is stopped, re-run the same command to resume.
#   bash launch/pocket_agents.sh [FOLDER]            val, the first 132 questions (default: runs/pocket-agents)
#   SPLIT=test LIMIT=726 SHIPPED=yes bash launch/pocket_agents.sh FOLDER      the shipped adapters on the test split
# VCA_STEPS, LV_STEPS and OWN_STEPS are the lengths of the trainings; the shipped adapters' are in videopro/pocket/agents/RECORD.md.
set -euo pipefail
folder=${1:-runs/pocket-agents}
source "$(dirname "$0")/setup.sh" train
split=${SPLIT:-val} limit=${LIMIT:-132} workers=${WORKERS:-2}
vca_steps=${VCA_STEPS:-900} lv_steps=${LV_STEPS:-1100} own_steps=${OWN_STEPS:-80}
mkdir -p "$folder"

teach() { # NAME AGENT STEPS SEED [settings]
    local name=$1 agent=$2 steps=$3 seed=$4
    shift 4
    python -m videopro.train.pocket.agents.adapter "$agent" --output "$folder/$name" --steps "$steps" --seed "$seed" "$@"
}

answer() { # NAME METHOD [settings]
    local name=$1 method=$2
    shift 2
    videopro infer --benchmark pocket --split "$split" --limit "$limit" --model pocket --workers "$workers" \
        --method "$method" --output "$folder/$name-$split" "$@"
}

if [ -n "${SHIPPED:-}" ]; then
    vca=pocket-vca looks=pocket-lv-looks times=pocket-lv-times words=pocket-lv-words
else
    # One training for all three agents, from which each goes on with its own questions and its own seed, and VCA too: what
    # takes longest to learn is to copy from a question, which both need.
    teach lv lvagent "$lv_steps" 0 --draws 1 --rank 8
    teach lv-looks lvagent-looks "$own_steps" 1 --draws 1 --rank 8 --adapter "$folder/lv/adapter" --lr 1e-3
    teach lv-times lvagent-times "$own_steps" 2 --draws 1 --rank 8 --adapter "$folder/lv/adapter" --lr 1e-3
    teach lv-words lvagent-words "$own_steps" 3 --draws 1 --rank 8 --adapter "$folder/lv/adapter" --lr 1e-3
    teach vca vca "$vca_steps" 0 --draws 1 --rank 8 --adapter "$folder/lv/adapter" --lr 1.5e-3
    vca=$folder/vca/adapter
    looks=$folder/lv-looks/adapter times=$folder/lv-times/adapter words=$folder/lv-words/adapter
fi
answer native native
answer vca vca --backbone "adapter=$vca" --options preset=equal temperature=0 max_new_tokens=200 max_rounds=2
answer lvagent lvagent --options preset=equal "agents=[pocket+$looks,pocket+$times,pocket+$words]" max_new_tokens=64
