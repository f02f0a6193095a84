"""A run of two steps of `grpo_world` under torchrun: python -m torch.distributed.run ... tests/grpo_two.py
OUTPUT REPLIES, REPLIES a process and pass."""

import sys
from pathlib import Path

from tests import grpo_world as grpo


def run(output: Path, replies: int) -> None:
    """Two steps over two groups and one of text alone; the adapter ends in `output`."""
    rows = [grpo.rows()[number] for number in (0, 1, 4)]
    config = grpo.settings(
        output,
        per_device_train_batch_size=replies,
        max_steps=2,
        beta=0.1,
        ddp_backend="gloo",
        shuffle_dataset=True,
        learning_rate=0.2,
    )
    made = grpo.trainer("qwen3_vl", config, rows)
    made.train()
    made.save_model(str(output))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
