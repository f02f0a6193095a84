#!/usr/bin/env bash
# Sets up, then answers questions of the pocket test split with the shipped models, directly and with programs, compares the
# two, and shows one question with its program. Arguments go to videopro compare, for example:
#   bash launch/demo.sh --limit 726 --output runs/all
set -euo pipefail
source "$(dirname "$0")/setup.sh" "" # "": no extra. Without an argument, source would pass on this script's own
configs=videopro/configs
videopro compare --config "$configs/compare/pocket.yaml" "$@"

folder=runs/demo before=""
for word in "$@"; do
    case "$before" in --output) folder=$word ;; esac
    case "$word" in --output=*) folder=${word#--output=} ;; esac
    before=$word
done
if [ -d "$folder/videopro" ]; then
    python launch/demo_question.py "$folder/videopro"
fi
