#!/usr/bin/env bash
# Sets up, then checks style and types and runs the tests. Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/setup.sh" test
bash launch/chromium.sh
ruff check .
ruff format --check .
mypy
lint-imports --no-cache
# Two processes, each on a core: most tests wait for processes of their own, and a model as small as pocket gains
# nothing from a second thread. A file stays in one process, with what its fixtures made.
OMP_NUM_THREADS=1 pytest --numprocesses 2 --dist loadfile "$@"
