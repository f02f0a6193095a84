"""Runs a training script and says where its steps' seconds go, for perf/grpo.py.

    python perf/grpo_timed.py TIMES.json SCRIPT [arguments of the script]

TRL's own methods are timed, which train/grpo.py and plain TRL share; nothing else of a run is touched. A line
of the file is a pass (`training_step`): `step` seconds in all, `sampling` of them until every reply is
written (`prefill`: the passes over whole prompts among them), `rewards` waited for, and `update` for the
rest, the policy's forward and backward passes. The optimizer's own step is not in it.
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


class Clock:
    """Seconds spent in named parts by the main thread."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.inside: list[str] = []

    def around(self, name: str, function: Callable[..., Any], within: str = "") -> Callable[..., Any]:
        """The function, timed; `within`: only when the innermost part is that one."""

        @functools.wraps(function)
        def timed(*args: Any, **given: Any) -> Any:
            mine = threading.current_thread() is threading.main_thread()
            if not mine or (within and (not self.inside or self.inside[-1] != within)):
                return function(*args, **given)
            if within and given["input_ids"].shape[1] == 1:
                return function(*args, **given)
            self.inside.append(name)
            began = _now()
            try:
                return function(*args, **given)
            finally:
                self.spent[name] += _now() - began
                self.inside.pop()

        return timed


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    times, script = Path(sys.argv[1]), sys.argv[2]
    clock = Clock()
    trainer: Any = GRPOTrainer
    for name, method in (
        ("made", "_generate_and_score_completions"),
        ("rewards", "_calculate_rewards"),
        ("step", "training_step"),
    ):
        setattr(trainer, method, clock.around(name, getattr(trainer, method)))
    for model in (Qwen2_5_VLForConditionalGeneration, Qwen3VLForConditionalGeneration):
        model.forward = clock.around("prefill", model.forward, within="made")  # type: ignore[method-assign]
    whole = trainer.training_step

    def step(*args: Any, **given: Any) -> Any:
        clock.spent.clear()
        out = whole(*args, **given)
        spent = clock.spent
        line = {
            "step": spent["step"],
            "prefill": spent["prefill"],
            "sampling": spent["made"] - spent["rewards"],
            "rewards": spent["rewards"],
            "update": spent["step"] - spent["made"],
        }
        with times.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return out

    trainer.training_step = step
    sys.argv = [script, *sys.argv[3:]]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
