"""(d) A whole GRPO step, with programs beside it and without: do their threads slow decoding?"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from trl import GRPOTrainer

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import on_gpu, peak_gib, reset_peak
from perf.battery.reinforcing import NoPrograms, PreparedPrograms, train
from perf.grpo_timed import Clock

TITLE = "GRPO: a step of configs/grpo/qwen3vl_8b.yaml, prepared programs in place of the replies"


def cases(bench: Bench) -> list[Case]:
    return [
        Case("no programs", lambda: step(bench, NoPrograms, "false")),
        Case("programs after sampling", lambda: step(bench, PreparedPrograms, "false")),
        Case("programs during sampling", lambda: step(bench, PreparedPrograms, "true")),
    ]


@contextlib.contextmanager
def _timed() -> Iterator[list[dict[str, float]]]:
    """The seconds of each pass of TRL's loop, by part, as perf/grpo.py takes them."""
    clock = Clock()
    passes: list[dict[str, float]] = []
    trainer: Any = GRPOTrainer
    inner = clock.around("step", trainer.training_step)

    def training_step(*args: Any, **kwargs: Any) -> Any:
        clock.spent.clear()
        out = inner(*args, **kwargs)
        passes.append(dict(clock.spent))
        return out

    with (
        patch.object(trainer, "training_step", training_step),
        patch.object(
            trainer,
            "_generate_and_score_completions",
            clock.around("generate", trainer._generate_and_score_completions),
        ),
        patch.object(trainer, "_calculate_rewards", clock.around("rewards", trainer._calculate_rewards)),
    ):
        yield passes


def step(bench: Bench, rewards: Any, ahead: str) -> Figures:
    """Two steps, of which the second counts; one where a CPU runs a model of real size."""
    shapes = bench.shapes
    steps = 1 if shapes.name == "2b" and not on_gpu() else 2
    reset_peak()
    with _timed() as passes:
        trainer = train(
            bench,
            rewards=rewards,
            steps=steps,
            groups=shapes.groups,
            longest=shapes.reply,
            run_ahead=ahead,
            logging_steps=1,
        )
    spent: dict[str, float] = defaultdict(float)
    for line in passes[(steps - 1) * shapes.groups :]:
        for name, seconds in line.items():
            spent[name] += seconds
    replies = shapes.group * shapes.groups
    sampling = spent["generate"] - spent["rewards"]
    logged = [line for line in trainer.state.log_history if "completions/mean_length" in line][-1]
    length = logged["completions/mean_length"]
    log = bench.path("grpo") / "programs.jsonl"
    return {
        "step_s": round(spent["step"], 2),
        "replies": replies,
        "reply_tokens": round(length),
        "sampling_s": round(sampling, 2),
        "rewards_s": round(spent["rewards"], 2),
        "update_s": round(spent["step"] - spent["generate"], 2),
        "programs": len(log.read_text().splitlines()) if log.exists() else 0,
        "peak_gib": peak_gib(),
    }
