"""Trainers of train/grpo.py on the random model, for (c) packed updates, (d) whole steps, (e) log-probs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from perf.battery.cases import Bench
from perf.battery.measuring import on_gpu
from perf.battery.world import make_grpo_rows
from videopro.executor import Program
from videopro.train import grpo
from videopro.train.rewards import ProgramRewards
from videopro.train.rl import GRPORow, VideoGRPOConfig, VideoGRPOTrainer
from videopro.train.rl.rollouts import Rollout, Turns
from videopro.train.runtime import read_settings

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "grpo" / "qwen3vl_8b.yaml"
MODULES = {"encoder": "none", "text_encoder": "none", "ocr": "none", "detector": "none"}


class PreparedPrograms(ProgramRewards):
    """Rewards that run a prepared program in place of each reply: a model with random weights writes none.

    Every second one is malformed, so that the rewards within a group differ, and every program asks about
    other frames, so that none is answered from the cache.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        parse, by_reply = self._program, dict[str, str]()

        @cache
        def prepared(reply: str) -> Program:
            number = len(by_reply)
            start = 0.25 * (number % 64)
            call = f"query_mc(trim_frames(video, {start}, {start + 2}, num_frames=8), question, choices)"
            program = f"def execute_command(video, question, choices):\n    return {call}"
            text = f"<planning>One look.</planning>\n<code>\n{program}\n</code>"
            return parse(by_reply.setdefault(reply, text if number % 2 == 0 else program))

        self._program = prepared


class NoPrograms(ProgramRewards):
    """Rewards that run nothing: 1 and 0 in turn."""

    def prepare(self, rows: Any) -> None:
        """Nothing to open."""

    def submit(self, row: Any, reply: str) -> Any:
        """Nothing to run."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.functions = [_in_turn] * len(self.weights)


def _in_turn(completions: Sequence[Any], **_: Any) -> list[float | None]:
    return [float(number % 2) for number in range(len(completions))]


def train(
    bench: Bench,
    *,
    rewards: type[ProgramRewards] = NoPrograms,
    steps: int = 1,
    groups: int = 1,
    longest: int,
    **settings: Any,
) -> VideoGRPOTrainer:
    """Run train/grpo.py with configs/grpo/qwen3vl_8b.yaml for some steps of `groups` prompts each.
    `settings` replace flags; with None, the config's own value counts."""
    shapes = bench.shapes
    flags: dict[str, Any] = {
        "config": CONFIG,
        "model_name_or_path": bench.checkpoint(),
        "train_data": make_grpo_rows(bench, max(8, steps * shapes.groups)),
        "output_dir": bench.path("grpo"),
        "frame_cache": bench.path("frames"),
        "modules": json.dumps(MODULES),
        "num_generations": shapes.group,
        "per_device_train_batch_size": shapes.group,
        "gradient_accumulation_steps": groups,
        "max_steps": steps,
        "max_completion_length": longest,
        "frames": shapes.frames,
        "pixels": shapes.pixels,
        "dtype": shapes.dtype,
        "lora_r": shapes.lora_rank,
        "save_strategy": "no",
        "log_completions": "false",
        "disable_tqdm": "true",
        **({} if on_gpu() else {"use_cpu": "true", "bf16": "false"}),
        **settings,
    }
    arguments = [word for name, value in flags.items() if value is not None
                 for word in (f"--{name}", str(value))]  # fmt: skip
    (bench.path("grpo") / "programs.jsonl").unlink(missing_ok=True)
    with patch.object(grpo, "ProgramRewards", rewards):
        return grpo.train(*read_settings(VideoGRPOConfig, "grpo", arguments))


def turns_of(trainer: VideoGRPOTrainer, rows: Sequence[GRPORow], replies: Sequence[list[int]]) -> Turns:
    """One turn for each reply, to the prompt of its row."""
    assert trainer._prompt_encoder is not None
    rollouts = [Rollout((prompt,)) for prompt in trainer._prompt_encoder.encode(rows)]
    width = max(map(len, replies))
    ids = torch.tensor([[*reply, *[0] * (width - len(reply))] for reply in replies])
    mask = torch.tensor([[1] * len(reply) + [0] * (width - len(reply)) for reply in replies])
    return Turns.of(rollouts, ids, mask)


def group_of(trainer: VideoGRPOTrainer) -> list[GRPORow]:
    """A row of the last step, once for each reply of a group."""
    return [trainer._rows[0]] * (trainer.num_generations or 1)
