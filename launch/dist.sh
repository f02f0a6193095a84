#!/usr/bin/env bash
# Builds the sdist, and the wheel from it, and checks them as PyPI does. Builds the last commit. Needs
# `pip install build twine`.
# Usage: bash launch/dist.sh [URL]     (URL of the repository: README.md then links to its files there)
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/dist
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' videopro/__init__.py)
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
rm -rf "$dist"
git archive HEAD | tar -C "$source" -xf -
if [ -n "${1:-}" ]; then
    # PyPI shows README.md alone, where relative links lead nowhere.
    sed -i -E -e "s#\]\((docs/[^)]*\.(svg|png))\)#]($1/raw/v$version/\1)#g" \
        -e "s#\]\((docs/|[A-Z]+\.)#]($1/blob/v$version/\1#g" \
        "$source/README.md"
fi
python -m build --outdir "$dist" "$source"
twine check --strict "$dist"/*
large=$(find "$dist" -size +30M)
[ -z "$large" ] || { echo "error: $large: larger than 30 MB; leave files out in pyproject.toml" >&2; exit 1; }
ls -l "$dist"
