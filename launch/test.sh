#!/usr/bin/env bash
# Sets up, checks style, types, imports and the site, and runs the tests.
#   bash launch/test.sh        the first tier: all that takes no more than minutes, for every change
#   bash launch/test.sh all    the second tier too: kills, browsers, training in two processes, long tests, the wheel, Ray
#                              clusters, and a real engine (launch/live.sh); before a release, and after a change of what
#                              they test
# Further arguments go to pytest, and then neither Ray nor the engine is started.
set -euo pipefail
tests="not live and not live_untrusted and not ray"
if [ "${1:-}" = all ]; then
    all=yes
    shift
else
    all=
    tests+=" and not kills and not browser and not two_processes and not long and not wheel"
fi
source "$(dirname "$0")/setup.sh" test
# Hundreds of child processes import the package, and each compiled it again where nothing may be kept.
unset PYTHONDONTWRITEBYTECODE
if [ "$all" ]; then bash launch/chromium.sh; fi
ruff check .
ruff format --check .
lint-imports --no-cache
mypy & # beside the site: each keeps one core busy
typing=$!
trap 'kill "$typing" 2> /dev/null || true' EXIT
bash launch/docs.sh
wait "$typing"
trap - EXIT
# Two processes with one thread each: most tests wait for child processes, and a model as small as pocket gains nothing
# from a second thread. A process that is done takes over tests of the other; until then each file stays in one, because its
# fixtures are expensive.
OMP_NUM_THREADS=1 pytest --numprocesses 2 --dist worksteal -m "$tests" "$@"
if [ "$all" ] && [ "$#" = 0 ]; then
    bash launch/ray_tests.sh
    bash launch/live.sh
fi
