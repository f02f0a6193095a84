#!/usr/bin/env bash
# Fine-tunes a planner on several machines. Run it on each, with the rows, the frame cache and the output on shared
# disks. Under Slurm: srun --ntasks-per-node=1 bash launch/sft_multinode.sh CONFIG ...
#   NODES=2 NODE_RANK=0 MASTER_ADDR=node0 bash launch/sft_multinode.sh qwen3vl_8b --train_data ... --output_dir ...
set -euo pipefail
config=${1:?give a name in configs/sft, such as qwen3vl_8b}
shift
source "$(dirname "$0")/setup.sh" train

nodes=${NODES:-${SLURM_NNODES:?set NODES, the number of machines}}
rank=${NODE_RANK:-${SLURM_NODEID:?set NODE_RANK, from 0}}
first=${MASTER_ADDR:-$(scontrol show hostnames "${SLURM_JOB_NODELIST:?set MASTER_ADDR, the first machine}" | head -n 1)}
gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
accelerate launch --config_file "configs/accelerate/${ACCELERATE:-multi_gpu}.yaml" \
    --num_machines "$nodes" --machine_rank "$rank" --num_processes "$((nodes * gpus))" \
    --main_process_ip "$first" --main_process_port "${MASTER_PORT:-29500}" \
    train/sft.py --config "configs/sft/$config.yaml" "$@"
