"""Runs a training script and records where the time of its steps goes, for perf/grpo.py.

    python perf/grpo_timed.py TIMES.json SCRIPT [arguments of the script]

Times TRL's own methods, which train/grpo.py and plain TRL share, and changes nothing else. Each line of the
file is one call of `training_step`, in seconds: `step` in all, `sampling` until every reply is generated
(`prefill` of it are the passes over whole prompts), `rewards` waiting for rewards, and `update` the rest: the
policy's forward and backward passes. The optimizer's own step is not included. `cpu` is the CPU time of the
step, of all threads and of programs that run meanwhile.
"""

from __future__ import annotations

import functools
import json
import runpy
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen3VLForConditionalGeneration
from trl import GRPOTrainer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf.timing import timed


class Clock:
    """Seconds that the main thread spends in named parts."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.inside: list[str] = []

    def around(self, name: str, function: Callable[..., Any], within: str = "") -> Callable[..., Any]:
        """The function, timed. With `within`, only calls directly inside that part count, and no single-token
        passes."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            on_main = threading.current_thread() is threading.main_thread()
            if not on_main or (within and (not self.inside or self.inside[-1] != within)):
                return function(*args, **kwargs)
            if within and kwargs["input_ids"].shape[1] == 1:
                return function(*args, **kwargs)
            self.inside.append(name)
            began = _now()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] += _now() - began
                self.inside.pop()

        return wrapped


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    times, script = Path(sys.argv[1]), sys.argv[2]
    clock = Clock()
    trainer: Any = GRPOTrainer
    for name, method in (
        ("generate", "_generate_and_score_completions"),
        ("rewards", "_calculate_rewards"),
        ("step", "training_step"),
    ):
        setattr(trainer, method, clock.around(name, getattr(trainer, method)))
    for model in (Qwen2_5_VLForConditionalGeneration, Qwen3VLForConditionalGeneration):
        forward = clock.around("prefill", model.forward, within="generate")
        model.forward = forward  # type: ignore[method-assign]
    training_step = trainer.training_step

    def step(*args: Any, **kwargs: Any) -> Any:
        clock.spent.clear()
        with timed() as used:
            out = training_step(*args, **kwargs)
        spent = clock.spent
        line = {
            "step": spent["step"],
            "prefill": spent["prefill"],
            "sampling": spent["generate"] - spent["rewards"],
            "rewards": spent["rewards"],
            "update": spent["step"] - spent["generate"],
            "cpu": used.cpu_s,
        }
        with times.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return out

    trainer.training_step = step
    sys.argv = [script, *sys.argv[3:]]
    # In place of this file's folder, and of the checkout that it put before that.
    sys.path[:2] = [str(Path(script).resolve().parent)]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
