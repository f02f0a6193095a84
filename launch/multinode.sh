#!/usr/bin/env bash
# Trains a planner on several machines: bash launch/multinode.sh sft|grpo CONFIG [settings], on each of them, with the rows,
# the frame cache and the output on shared disks. Under Slurm, where an error on one machine ends the others too:
#   srun --ntasks-per-node=1 --kill-on-bad-exit=1 bash launch/multinode.sh sft CONFIG ...
#   NODES=2 NODE_RANK=0 MASTER_ADDR=node0 bash launch/multinode.sh sft qwen3vl_8b --train_data ... --output_dir ...
# The checkout may be shared too: one machine installs, the others wait for it (launch/setup.sh). CONFIG and ACCELERATE as in
# launch/train.sh; ACCELERATE is multi_gpu by default. PROCESSES: how many train on each machine, on its first GPUs; by
# default one on each GPU (GRPO's engine_gpus need fewer).
set -euo pipefail
stage=${1:?pass sft or grpo}
name=${2:?give the name of a config, such as qwen3vl_8b}
shift 2
nodes=${NODES:-${SLURM_NNODES:?set NODES, the number of machines}}
rank=${NODE_RANK:-${SLURM_NODEID:?set NODE_RANK, from 0}}
first=${MASTER_ADDR:-$(scontrol show hostnames "${SLURM_JOB_NODELIST:?set MASTER_ADDR, the first machine}" | head -n 1)}
here=$(cd "$(dirname "$0")/.." && pwd)
case "$name" in *.yaml | *.yml) if [ -f "$name" ]; then name=$(realpath "$name"); fi ;; esac
cd "$here"
source launch/training_config.sh
config=$(find_config "$stage" "$name")
way=$(find_config accelerate "${ACCELERATE:-multi_gpu}")
source launch/setup.sh "$(training_extras)"

gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" = 0 ]; then
    echo "error: machine $rank has no GPU; on a single machine without GPUs, use launch/$stage.sh" >&2
    exit 2
fi
accelerate launch --config_file "$way" \
    --num_machines "$nodes" --machine_rank "$rank" --num_processes "$((nodes * ${PROCESSES:-gpus}))" \
    --main_process_ip "$first" --main_process_port "${MASTER_PORT:-29500}" \
    "train/$stage.py" --config "$config" "$@"
