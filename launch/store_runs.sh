#!/usr/bin/env bash
# Stores runs in a folder of docs/results: the summary of each, and the settings and traces of all in one archive, from
# which launch/recount.sh makes the tables again.
#   bash launch/store_runs.sh RUNS RESULTS NAME...     RUNS/NAME becomes RESULTS/NAME.json and NAME/ in the archive
# NAME=OTHER stores the run RUNS/OTHER as NAME. Raises an error for a run that is not complete.
set -euo pipefail
runs=$(realpath "$1") results=$2
shift 2
mkdir -p "$results"
results=$(realpath "$results")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in "$@"; do
    run=$runs/${name#*=} name=${name%%=*}
    if ! grep -q '"coverage": 1.0' "$run/summary.json"; then echo "store_runs.sh: $run is incomplete" >&2; exit 2; fi
    mkdir -p "$work/$(dirname "$name")"
    mkdir "$work/$name"
    # No paths of this machine: of the runs and what stands beside them, and of the cache in which pocket's videos are.
    without_paths() { sed -E "s#($runs|$(dirname "$runs"))/##g; s#\"[^\"]*/(pocket-[0-9a-f]{12}/)#\"\1#g" "$1"; }
    without_paths "$run/summary.json" > "$results/${name//\//-}.json"
    for file in traces.jsonl config.yaml; do without_paths "$run/$file" > "$work/$name/$file"; done
done
if grep -rqE "(: |\")/" --include=config.yaml --include="*.json" "$work" "$results"; then
    echo "store_runs.sh: these files still contain a path of this machine:" >&2
    grep -rlE "(: |\")/" --include=config.yaml --include="*.json" "$work" "$results" >&2
    exit 2
fi
# Sorted, and without owners and times, so that the same runs give the same archive.
(cd "$work" && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - -- * | xz -9e > "$results/traces.tar.xz")
