#!/usr/bin/env bash
# Sets up, checks style, types, imports and the site, and runs the tests.
#   bash launch/test.sh        the first tier: all that takes no more than minutes, for every change
#   bash launch/test.sh all    the second tier too: kills, browsers, training in two processes, long tests, the wheel, Ray
#                              clusters, the road in small (launch/miniature.sh), and a real engine (launch/live.sh); before
#                              a release, and after a change of what they test
# Further arguments go to pytest, and then Ray, the road and the engine are left out.
set -euo pipefail
tests="not live and not live_untrusted and not ray and not road"
if [ "${1:-}" = all ]; then
    all=yes
    shift
else
    all=
    tests+=" and not kills and not browser and not two_processes and not long and not wheel"
fi
source "$(dirname "$0")/setup.sh" test
# What the site needs, now: nothing may be installed while tests run.
bash launch/setup.sh docs,train
# Hundreds of child processes import the package, and each compiled it again where nothing may be kept.
unset PYTHONDONTWRITEBYTECODE
if [ "$all" ]; then bash launch/chromium.sh; fi
ruff check .
ruff format --check .

failed=$(mktemp)
check() { # run a command, show its output whole when it is done, and remember it if it failed
    local output status=0
    output=$("$@" 2>&1) || status=$?
    if [ "$status" = 0 ]; then
        printf '\n== %s: done\n%s\n' "$*" "$output"
    else
        printf '\n== %s: FAILED with status %s\n%s\n' "$*" "$status" "$output"
        echo "$*" >> "$failed"
    fi
}
# Beside the tests, many of which wait for child processes. With a process group of its own, so that none of it outlives
# this script.
set -m
{
    check lint-imports --no-cache
    check mypy
    check bash launch/docs.sh
} &
checks=$!
set +m
trap 'kill -- "-$checks" 2> /dev/null || true; rm -f "$failed"' EXIT

# Two processes with one thread each: most tests wait for child processes, and a model as small as pocket gains nothing
# from a second thread. A process that is done takes over tests of the other; until then each file stays in one, because its
# fixtures are expensive.
status=0
OMP_NUM_THREADS=1 pytest --numprocesses 2 --dist worksteal -m "$tests" "$@" || status=$?
wait "$checks"
while read -r name; do
    echo "error: $name failed; see its output above" >&2
    [ "$status" != 0 ] || status=1
done < "$failed"
if [ "$status" != 0 ]; then exit "$status"; fi

if [ "$all" ] && [ "$#" = 0 ]; then
    bash launch/ray_tests.sh
    bash launch/live.sh
    OMP_NUM_THREADS=1 pytest -m road tests/launch
fi
