#!/usr/bin/env bash
# Fine-tunes a planner on several machines: bash launch/sft_multinode.sh CONFIG [settings]; see launch/multinode.sh.
exec bash "$(dirname "$0")/multinode.sh" sft "$@"
