#!/usr/bin/env bash
# A run on the nodes of a Slurm job: sbatch --nodes=4 launch/ray/slurm.sh infer --benchmark NAME --root DIR --model M --output RUN
# Or index, or synthesize, instead of infer. Videos, model, output and this checkout are on a disk that all nodes see.
# `ray symmetric-run` starts Ray on every node, runs the command on the first one, and stops Ray when it ends. If the job
# is cancelled or requeued, submit it again: the run goes on.
#SBATCH --job-name=videopro
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --requeue
#SBATCH --output=%x-%j.log
set -euo pipefail
if [ $# = 0 ]; then
    echo "error: give a command, such as: sbatch launch/ray/slurm.sh infer --benchmark ..." >&2
    exit 2
fi
cd "${SLURM_SUBMIT_DIR:?submit this file with sbatch}"
if [ -f .venv/bin/activate ]; then
    source .venv/bin/activate
fi
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes%%$'\n'*}
# Two jobs that share a node need two ports.
RAY_ADDRESS=$head:$((20000 + SLURM_JOB_ID % 10000))
export RAY_ADDRESS RAY_USAGE_STATS_ENABLED=0
# Indexes and agents' databases: on the node's own disk, unless you name a shared folder.
export VIDEOPRO_CACHE=${VIDEOPRO_CACHE:-${TMPDIR:-/tmp}/videopro-$SLURM_JOB_ID}
# The head's own CPUs work too: the command itself takes little of one.
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    ray symmetric-run --address "$RAY_ADDRESS" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
    videopro "$@" --engine ray
