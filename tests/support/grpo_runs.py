"""A small GRPO run: its command line, and rewards that need no program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from tests.support.training_runs import (
    LORA,
    NO_MODELS,
    flags,
)
from videopro.executor import parse_program
from videopro.question import Answer
from videopro.traces import Execution, Failure
from videopro.train.rewards import TurnOutcome
from videopro.train.rewards.runs import ProgramOutcome


def arguments(output: Path, **changes: Any) -> list[str]:
    """Flags for a run on a CPU."""
    data = output.parent / "grpo.jsonl"
    if not data.exists():
        world.write(data, [grpo.record(row) for row in grpo.rows()])
    given = {
        **LORA,
        "train_data": data,
        "modules": NO_MODELS,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "max_completion_length": 6,
        "max_steps": 2,
    }
    return flags(output, **{**given, **changes})


class SomeRewards:
    """In place of `ProgramRewards`: a reward that a random model earns too."""

    latest: SomeRewards

    def __init__(self, backbone: Any, **_: Any) -> None:
        self.backbone = backbone
        self.functions = [grpo.spread]
        self.weights = [1.0]
        SomeRewards.latest = self

    def prepare(self, rows: Any) -> None:
        pass

    def submit(self, row: Any, reply: str) -> None:
        pass

    def run(self, rows: Any, replies: Any) -> list[TurnOutcome]:
        """Some programs fail, so that episodes of one turn and of two are mixed."""
        failed = Execution("failed", error=Failure("NameError", "no"))
        right = Execution("ok", Answer("A", 0.9))
        return [
            TurnOutcome(
                reply,
                parse_program(reply),
                ProgramOutcome(failed if len(reply) % 2 else right, "NameError: no"),
            )
            for reply in replies
        ]

    def __enter__(self) -> SomeRewards:
        return self

    def __exit__(self, *_: object) -> None:
        pass
