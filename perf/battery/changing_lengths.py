"""(k) Steps that each have another length, as in real training: what a length that is new costs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from transformers import TrainerCallback

from perf.battery.cases import Bench, Case, Figures
from perf.battery.fine_tuning import Steps, on_cpu, recipe
from perf.battery.measuring import now, peak_gib, reset_peak
from perf.battery.reinforcing import group_of, turns_of
from perf.battery.reinforcing import train as train_policy
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import read_settings
from videopro.train.sft import train

TITLE = "Steps of changing lengths: SFT steps, and updates of groups whose replies differ"
_SHORTEST = 5
"""A reply has at least this part of the longest's tokens."""


def cases(bench: Bench) -> list[Case]:
    return [
        Case("SFT, rows joined", partial(sft_steps, bench, True)),
        Case("SFT, rows padded", partial(sft_steps, bench, False)),
        Case("updates of one group", partial(updates, bench)),
    ]


def sft_steps(bench: Bench, joins: bool) -> Figures:
    """Steps of two rows, each step of another length."""
    shapes, draw = bench.shapes, random.Random(0)
    words = [draw.randrange(max(shapes.mixed)) for _ in range(2 * shapes.steps)]
    settings = {"padding_free": str(joins).lower(), "train_sampling_strategy": "sequential", **on_cpu()}
    arguments = recipe(bench, 2, shapes.steps, bench.path("sft"), words, **settings)
    reset_peak()
    timed, widths = Steps(), Widths()
    trainer = train(*read_settings(VideoSFTConfig, "sft", arguments), callbacks=[timed, widths])
    del trainer
    return {**costs(timed.seconds, widths.of_passes), "peak_gib": peak_gib()}


def updates(bench: Bench) -> Figures:
    """Forward and backward over as many groups, whose replies have a fifth of the longest length or more."""
    trainer = train_policy(bench, longest=4)
    model: Any = trainer.model
    rows, draw = group_of(trainer), random.Random(0)
    longest = bench.shapes.packed[0]
    model.train()
    widths = Widths()
    handle = widths.watch(trainer._run.model.model.language_model)
    reset_peak()
    seconds = []
    for _ in range(bench.shapes.steps):
        replies = [
            [draw.randrange(1000) for _ in range(draw.randint(longest // _SHORTEST, longest))] for _ in rows
        ]
        turns = turns_of(trainer, rows, replies)
        began = now()
        values, _, _ = trainer._score_shared_prefix(model, turns, False)
        (-values.mean()).backward()
        seconds.append(now() - began)
        model.zero_grad()
    handle.remove()
    return {**costs(seconds, widths.of_passes), "replies": len(rows), "peak_gib": peak_gib()}


class Widths(TrainerCallback):
    """The width of each pass through a language model. As a callback it watches that of its trainer."""

    def __init__(self) -> None:
        self.of_passes: list[int] = []

    def on_train_begin(self, *_: Any, **settings: Any) -> None:
        self.watch(settings["model"].get_base_model().model.language_model)

    def watch(self, language: torch.nn.Module) -> Any:
        """Note the widths from here on."""
        return language.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, language: Any, arguments: Any, inputs: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            self.of_passes.append(inputs["inputs_embeds"].shape[1])


def costs(seconds: Sequence[float], widths: Sequence[int]) -> Figures:
    """What passes took whose width was there before, and how much more the others did. The first pass of all
    is left out: it loads kernels."""
    again = [second for i, second in enumerate(seconds) if widths[i] in widths[:i]]
    new = [second for i, second in enumerate(seconds) if i > 0 and widths[i] not in widths[:i]]
    usual = statistics.median(again) if again else None
    return {
        "steps": len(seconds),
        "widths": len(set(widths)),
        "a_step_s": None if usual is None else round(usual, 3),
        "a_new_width_s": round(statistics.mean(new), 3) if new else None,
        "first_s": round(seconds[0], 3),
        "slowest_s": round(max(seconds[1:]), 3),
    }
