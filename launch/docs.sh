#!/usr/bin/env bash
# Builds the site into build/docs/site. A link to a missing page or anchor stops the build. Only installing needs a network.
#   bash launch/docs.sh              build it
#   bash launch/docs.sh --serve      build it and look at it, on http://localhost:8000
set -euo pipefail
serve=${1:-}
source "$(dirname "$0")/setup.sh" docs
python launch/docs.py build/docs
cd build/docs
zensical build --clean --strict
echo "build/docs/site/index.html"
if [ "$serve" = --serve ]; then zensical serve; fi
