#!/usr/bin/env bash
# Reproduces the paper, from the official files to its tables: bash launch/reproduce.sh [CONFIG] [settings]
#   bash launch/reproduce.sh paper --plan          what it needs, every stage, and what each will take
#   bash launch/reproduce.sh one-gpu --yes         without asking first
# CONFIG is a name in videopro/configs/reproduce (default: paper), or a YAML file. Re-run the same command to resume.
# docs/reproduce.md has the stages. EXTRAS names the extras of pyproject.toml to install.
set -euo pipefail
case "${1:-}" in "" | -*) config=paper ;; *.yaml | *.yml) config=$(realpath "$1"); shift ;; *) config=$1; shift ;; esac
source "$(dirname "$0")/setup.sh" "${EXTRAS:-train,report,benchmarks,encoders,easyocr}"
exec videopro reproduce --config "$config" "$@"
