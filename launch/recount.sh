#!/usr/bin/env bash
# Rebuilds the tables of docs/results from the traces stored there, for every rule of the final answer. No model runs.
#   bash launch/recount.sh [FOLDER]      (default: docs/results, overwritten; another folder leaves it untouched)
# RESULTS names the folders to do (default: all that RESULTS can name, as at the end of this file).
set -euo pipefail
output=$(realpath -m "${1:-docs/results}")
source "$(dirname "$0")/setup.sh" report
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

unpack() { # RESULTS
    mkdir -p "$work/$1" "$output/$1"
    [ -d "$work/$1/native" ] || tar xf "docs/results/$1/traces.tar.xz" -C "$work/$1"
}

pocket-test() {
    (cd "$work/pocket-test" && videopro seeds "native=native" "native, subtitles at its frames=native-frames" \
        "native, all subtitles=native-subtitles" "program=program" "videopro=videopro" \
        "videopro, reader off=videopro-unread" --oracle native \
        --output "$output/pocket-test/last.json" "$output/pocket-test/last.md" > /dev/null)
    echo "$output/pocket-test/last.md"
}

# The same methods, and the shipped planner, in a world that was drawn once, after all settings were fixed.
pocket-fresh() {
    (cd "$work/pocket-fresh" && videopro seeds "native=native" "native, subtitles at its frames=native-frames" \
        "native, all subtitles=native-subtitles" "program=program" "videopro=videopro" \
        "videopro, reader off=videopro-unread" "videopro by pocket-sft=shipped-videopro" --oracle native \
        --output "$output/pocket-fresh/last.json" "$output/pocket-fresh/last.md" > /dev/null)
    echo "$output/pocket-fresh/last.md"
}

of() { # PREFIX NAME: the runs of all seeds
    local seed
    for seed in 0 1 2; do echo -n "$1$2-$seed,"; done
}

# The planner of three seeds. Direct answers are those of pocket-test.
pocket-sft() {
    unpack pocket-test
    local direct=../pocket-test/native steps=""
    for seed in 0 1 2; do steps+="steps:videopro-$seed+program-$seed,"; done
    (cd "$work/pocket-sft" && videopro seeds "native=$direct" "native, subtitles at its frames=$direct-frames" \
        "native, all subtitles=$direct-subtitles" "asked for programs=$(of "" program)" \
        "always several steps=$steps" "adaptive=$(of first: videopro)" \
        "adaptive + refinement=$(of "" videopro)" \
        "the more confident of the two answers=$(of best: videopro)" --oracle "$direct" \
        --output "$output/pocket-sft/test.json" "$output/pocket-sft/test.md" > /dev/null)
    echo "$output/pocket-sft/test.md"
    direct=../pocket-test/heldout-native
    (cd "$work/pocket-sft" && videopro seeds "native=$direct" "native, subtitles at its frames=$direct-frames" \
        "native, all subtitles=$direct-subtitles" "adaptive=$(of first: heldout-videopro)" \
        "adaptive + refinement=$(of "" heldout-videopro)" \
        "the more confident of the two answers=$(of best: heldout-videopro)" --oracle "$direct" \
        --output "$output/pocket-sft/heldout.json" "$output/pocket-sft/heldout.md" > /dev/null)
    echo "$output/pocket-sft/heldout.md"
}

# What launch/pocket.sh makes without --full, under the seeds that are stored.
pocket-small() {
    local programs="" videopros="" firsts="" bests="" steps="" run seed
    for run in "$work"/pocket-small/videopro-*; do
        seed=${run##*-}
        programs+="program-$seed," videopros+="videopro-$seed," firsts+="first:videopro-$seed," bests+="best:videopro-$seed,"
        steps+="steps:videopro-$seed+program-$seed,"
    done
    (cd "$work/pocket-small" && videopro seeds "native=native" "asked for programs=$programs" "always several steps=$steps" \
        "adaptive=$firsts" "adaptive + refinement=$videopros" "the more confident of the two answers=$bests" --oracle native \
        --output "$output/pocket-small/test.json" "$output/pocket-small/test.md" > /dev/null)
    echo "$output/pocket-small/test.md"
}

# A planner that was trained without the rows of a family, on the questions of that family.
pocket-sft-unseen() {
    unpack pocket-test
    unpack pocket-sft
    local direct=../pocket-test/native with=../pocket-sft/videopro
    (cd "$work/pocket-sft-unseen" && videopro seeds "native=$direct" "without: adaptive=first:videopro" \
        "without: adaptive + refinement=videopro" "with: adaptive=$(of first: "$with")" \
        "with: adaptive + refinement=$(of "" "$with")" --family order --oracle "$direct" \
        --output "$output/pocket-sft-unseen/last.json" "$output/pocket-sft-unseen/last.md" > /dev/null)
    echo "$output/pocket-sft-unseen/last.md"
}

# The planner merged into its base, beside its adapter.
pocket-merged() {
    (cd "$work/pocket-merged" && videopro seeds "native=native" "the adapter=adapter" "merged, its base answers=merged" \
        "merged, it answers by itself=alone" --oracle native \
        --output "$output/pocket-merged/last.json" "$output/pocket-merged/last.md" > /dev/null)
    echo "$output/pocket-merged/last.md"
}

pocket-grpo() {
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
}

pocket-grpo-240() {
    said=([few]="SFT on 240 questions" [grpo]="SFT + GRPO" [two-turn]="SFT + GRPO, episodes of two turns")
    every_rule pocket-grpo-240 few grpo two-turn
    count pocket-grpo-240 first-against-grpo grpo two-turn --
    count pocket-grpo-240 last-fallback-against-grpo grpo two-turn -- --fallback native
}

# The shipped pocket-grpo, which trains no head, and what it was trained from.
pocket-grpo-shipped() {
    said=([few]="SFT on 240 questions" [grpo]="SFT + GRPO")
    every_rule pocket-grpo-shipped few grpo
}

report() { # RESULTS SETTING...: the report of all runs in the archive
    (cd "$work/$1" && videopro report . "${@:2}" --output "$work/$1-report" > /dev/null)
    # Pages show the SVG files; the tables that the report only links to are in the report of whoever makes it again.
    mkdir -p "$output/$1/figures"
    cp "$work/$1-report/figures"/*.svg "$output/$1/figures"
    sed -E 's#(figures/[a-z_]+)\.png#\1.svg#; s#\[(tables/[a-z_]+\.csv)\]\([^)]*\)#`\1`#' "$work/$1-report/report.md" > "$output/$1/report.md"
    echo "$output/$1/report.md"
}

# As launch/paper_tables.sh and launch/compare_methods.sh end.
pocket-tables() { report pocket-tables --published --title "The paper's tables on pocket"; }
pocket-compare() {
    report pocket-compare --tables costs main pairs runs --title "Methods at equal budgets: pocket test, pocket"
}

for results in ${RESULTS:-pocket-test pocket-fresh pocket-small pocket-sft pocket-sft-unseen pocket-merged pocket-grpo \
    pocket-grpo-240 pocket-grpo-shipped pocket-tables pocket-compare}; do
    unpack "$results"
    "$results"
done
# The pages that show these tables.
if [ "$output" = "$(realpath docs/results)" ]; then python launch/recorded_tables.py; fi
