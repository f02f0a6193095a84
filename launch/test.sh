#!/usr/bin/env bash
# Sets up, checks style, types, imports and the site, and runs the tests. Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/setup.sh" test
bash launch/chromium.sh
ruff check .
ruff format --check .
mypy
lint-imports --no-cache
bash launch/docs.sh
# Two processes with one thread each: most tests wait for child processes, and a model as small as pocket gains nothing
# from a second thread. Each file stays in one process, because its fixtures are expensive.
OMP_NUM_THREADS=1 pytest --numprocesses 2 --dist loadfile "$@"
