"""(d) A whole GRPO step as configs/grpo/qwen3vl_8b.yaml ships it, and with the replies of one prompt."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from trl import GRPOTrainer

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import on_gpu, peak_gib, reset_peak
from perf.battery.reinforcing import PreparedPrograms, train
from perf.grpo_timed import Clock

TITLE = "GRPO: a step of configs/grpo/qwen3vl_8b.yaml, replies that end, prepared programs in their place"


def cases(bench: Bench) -> list[Case]:
    return [
        Case("as shipped", lambda: step(bench)),
        Case("gradient_accumulation_steps: 1", lambda: step(bench, groups=1)),
    ]


def shipped(bench: Bench, groups: int | None) -> dict[str, Any]:
    """The flags of the work: at the size that a config is for, its own numbers (None) but for `groups`."""
    shapes = bench.shapes
    if shapes.name == "8b":
        names = ("num_generations", "per_device_train_batch_size", "max_completion_length")
        return {**dict.fromkeys(names), "gradient_accumulation_steps": groups}
    return {
        "max_completion_length": shapes.longest,
        "gradient_accumulation_steps": groups or shapes.groups,
    }


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


def step(bench: Bench, groups: int | None = None, steps: int = 2, **engine: Any) -> Figures:
    """So many steps, of which the last counts; one where a CPU runs a model of real size. `groups`: prompts
    in a step, if others than shipped. `engine`: flags of one that writes the replies."""
    shapes = bench.shapes
    steps = 1 if shapes.name == "2b" and not on_gpu() else steps
    reset_peak()
    with _timed() as passes:
        trainer = train(
            bench,
            rewards=PreparedPrograms,
            steps=steps,
            longest=shapes.longest,
            model_name_or_path=bench.ending_checkpoint(),
            logging_steps=1,
            **shipped(bench, groups),
            **engine,
        )
    groups = trainer.args.gradient_accumulation_steps
    spent: dict[str, float] = defaultdict(float)
    for line in passes[(steps - 1) * groups :]:
        for name, seconds in line.items():
            spent[name] += seconds
    replies = trainer.args.per_device_train_batch_size * groups
    sampling = spent["generate"] - spent["rewards"]
    logged = [line for line in trainer.state.log_history if "completions/mean_length" in line][-1]
    length, longest = (logged[f"completions/{which}_length"] for which in ("mean", "max"))
    log = bench.path("grpo") / "programs.jsonl"
    return {
        "step_s": round(spent["step"], 2),
        "replies": replies,
        "reply_tokens": round(length),
        "longest": round(longest),
        "reward": round(logged["reward"], 3),
        "sampling_s": round(sampling, 2),
        "rewards_s": round(spent["rewards"], 2),
        "update_s": round(spent["step"] - spent["generate"], 2),
        "programs": len(log.read_text().splitlines()) if log.exists() else 0,
        "peak_gib": peak_gib(),
    }
