#!/usr/bin/env bash
# Rebuilds the tables of docs/results/pocket-test, pocket-sft, pocket-tables, pocket-grpo and pocket-grpo-240 from the traces
# stored there, for every rule of the final answer. No model runs. About eight minutes on one core.
#   bash launch/recount.sh [FOLDER]      (default: docs/results, overwritten; another folder leaves it untouched)
set -euo pipefail
output=$(realpath -m "${1:-docs/results}")
source "$(dirname "$0")/setup.sh" "" # "": no extra. Without an argument, source would pass on this script's own
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() { # RESULTS FILE NAME... -- [settings]: the first name is the baseline
    local results=$1 file=$2 rows=() name prefix=""
    shift 2
    case "$file" in first*) prefix=first: ;; esac
    while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
        name=$1
        rows+=("${said[$name]}=$(for seed in 0 1 2; do echo -n "$prefix$name-videopro-$seed,"; done)")
        shift
    done
    # Run in that folder, so that runs are recorded by their relative names.
    (cd "$work/$results" && videopro seeds "${rows[@]}" --oracle native "${@:2}" \
        --output "$output/$results/$file.json" "$output/$results/$file.md" > /dev/null)
    echo "$output/$results/$file.md"
}

declare -A said=()
every_rule() { # RESULTS NAME...: first and refined answers, each with and without the fallback
    count "$1" first "${@:2}" --
    count "$1" first-fallback "${@:2}" -- --fallback native
    count "$1" last "${@:2}" --
    count "$1" last-fallback "${@:2}" -- --fallback native
    count "$1" last-answered "${@:2}" -- --final last-answered
    count "$1" last-answered-fallback "${@:2}" -- --final last-answered --fallback native
}

for results in pocket-test pocket-sft pocket-grpo pocket-grpo-240; do
    mkdir -p "$work/$results" "$output/$results"
    tar xf "docs/results/$results/traces.tar.xz" -C "$work/$results"
done

# The test split, and a world drawn once from a seed that nothing had used before. SHIPPED is the seed of the shipped planner.
shipped=$(cat docs/results/pocket-sft/shipped)
ln -s "../pocket-sft/videopro-$shipped" "$work/pocket-test/shipped-videopro"
of_world() { # FILE PREFIX
    (cd "$work/pocket-test" && videopro seeds "native=$2native" "native, subtitles at its frames=$2native-frames" \
        "native, all subtitles=$2native-subtitles" "program=$2program" "videopro=$2videopro" \
        "videopro, reader off=$2videopro-unread" "shipped planner: adaptive=first:$2shipped-videopro" \
        "shipped planner: videopro=$2shipped-videopro" \
        --oracle "$2native" --output "$output/pocket-test/$1.json" "$output/pocket-test/$1.md" > /dev/null)
    echo "$output/pocket-test/$1.md"
}
of_world last ""
of_world fresh fresh-

# The shipped planner's three seeds, on test, in other words, and on a family that one seed was trained without.
seeds_of() { echo "$1-0,$1-1,$1-2"; }
steps=$(for seed in 0 1 2; do echo -n "steps:videopro-$seed+program-$seed,"; done)
first() { echo "first:$1-0,first:$1-1,first:$1-2"; }
of_planner() { # FILE ORACLE NAME=RUNS... [settings]
    (cd "$work/pocket-sft" && videopro seeds "${@:3}" --oracle "$2" \
        --output "$output/pocket-sft/$1.json" "$output/pocket-sft/$1.md" > /dev/null)
    echo "$output/pocket-sft/$1.md"
}
of_planner test native "native=native" "asked for programs=$(seeds_of program)" "always several steps=$steps" \
    "adaptive=$(first videopro)" "videopro=$(seeds_of videopro)"
of_planner heldout heldout-native "native=heldout-native" "adaptive=$(first heldout-videopro)" \
    "videopro=$(seeds_of heldout-videopro)"
of_planner unseen native "native=native" "without: adaptive=first:unseen-videopro" "without: videopro=unseen-videopro" \
    "with: adaptive=$(first videopro)" "with: videopro=$(seeds_of videopro)" --family order

said=([few]="SFT on 60 questions"
    [more-round-1]="+ more SFT, one round" [more]="+ more SFT, two rounds"
    [own-round-1]="+ SFT on its own right programs, one round" [own]="+ SFT on its own right programs, two rounds"
    [grpo-round-1]="+ GRPO, one round (40 steps)" [grpo]="+ GRPO, two rounds (80 steps)"
    [both]="+ SFT on its own right programs, then GRPO (40 steps)")
every_rule pocket-grpo few more-round-1 own-round-1 grpo-round-1 more own both grpo
# With each control as the baseline, and each method after its first round.
for file in first last last-fallback; do
    settings=()
    case "$file" in *-fallback) settings=(--fallback native) ;; esac
    count pocket-grpo "$file-against-more" more own both grpo -- "${settings[@]}"
    count pocket-grpo "$file-against-own" own both grpo -- "${settings[@]}"
    count pocket-grpo "$file-against-own-round-1" own-round-1 own both grpo-round-1 grpo -- "${settings[@]}"
    count pocket-grpo "$file-against-grpo-round-1" grpo-round-1 grpo -- "${settings[@]}"
    count pocket-grpo "$file-against-more-round-1" more-round-1 grpo-round-1 -- "${settings[@]}"
done

said=([few]="SFT on 240 questions" [grpo]="SFT + GRPO" [two-turn]="SFT + GRPO, episodes of two turns")
every_rule pocket-grpo-240 few grpo two-turn
count pocket-grpo-240 first-against-grpo grpo two-turn --
count pocket-grpo-240 last-fallback-against-grpo grpo two-turn -- --fallback native
# The pages that show these tables.
if [ "$output" = "$(realpath docs/results)" ]; then python launch/recorded_tables.py; fi
