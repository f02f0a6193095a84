"""A run of two steps of `grpo_world`, for launchers of several ranks: tests/support/grpo_two.py OUTPUT
REPLIES VIDEOS [ahead], with replies a process and pass, and the folder of videos (x264 makes other files each
time). `ahead`: a sampler in an engine's place writes each round ahead."""

import os
import sys
from pathlib import Path
from typing import Any

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint
from tests.support.scripted_sampler import ScriptedSampler, making


def run(output: Path, replies: int, *, ahead: bool = False) -> None:
    """Two steps over two groups with videos and one of text alone, rollouts of one turn and of two among
    them; the adapter ends in `output`."""
    rows = [grpo.rows()[number] for number in (0, 1, 4)]
    # Before there are several processes, of which only the first would write it.
    checkpoint("qwen3_vl")
    several: dict[str, Any] = {}
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        several = {"use_cpu": False}  # in the CPU's stead `as_accelerator` has a GPU
    elif "RANK" in os.environ:
        several = {"ddp_backend": "gloo"}
    sampler = {}
    if ahead:
        several |= {"sampler": "vllm", "async_rollouts": True}
        sampler = making(ScriptedSampler())
    config = grpo.settings(
        output, per_device_train_batch_size=replies, max_steps=2, beta=0.1, learning_rate=0.2, **several
    )
    made = grpo.trainer("qwen3_vl", config, rows, next_turn=grpo.refine_some, **sampler)
    made.train()
    made.save_model(str(output))


if __name__ == "__main__":
    world.folder = lambda: Path(sys.argv[3])  # type: ignore[assignment]
    run(Path(sys.argv[1]), int(sys.argv[2]), ahead="ahead" in sys.argv[4:])
