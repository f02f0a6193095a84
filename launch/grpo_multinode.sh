#!/usr/bin/env bash
# Trains a planner with GRPO on several machines: bash launch/grpo_multinode.sh CONFIG [settings]; see launch/multinode.sh.
exec bash "$(dirname "$0")/multinode.sh" grpo "$@"
