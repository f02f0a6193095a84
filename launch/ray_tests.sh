#!/usr/bin/env bash
# The tests that start Ray clusters of several nodes on this machine and kill their parts: about 8 minutes on two cores.
# Arguments go to pytest. Needs 6 GiB of free memory: one test fills 3 GiB, until Ray kills the worker.
set -euo pipefail
source "$(dirname "$0")/setup.sh" test
OMP_NUM_THREADS=1 pytest -m ray tests/engine/cluster "$@"
