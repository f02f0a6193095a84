#!/usr/bin/env bash
# Sets up, then checks style and types and runs the tests. Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/setup.sh" test
bash launch/chromium.sh
ruff check .
ruff format --check .
mypy
lint-imports --no-cache
pytest "$@"
