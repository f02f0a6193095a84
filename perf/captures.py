"""How many steps the local engine captures for a round of GRPO, counted where none is captured.

    python -m perf.captures [--rounds 6]             writes perf/captures.json

A round is 64 replies to 8 prompts, as the shipped config writes them on a GPU: prompts that differ as those
of 1,900 to 2,400 tokens do, and replies of 256 tokens on average and 1,024 at most, with log-normal lengths.
The pocket model reads the prompts; no step is computed, as the layouts of a batch follow from lengths alone.
Counted are the steps that a GPU would capture, and those of them that no round captured before: the others
are captured anew, as only the last layouts are kept, and none whose memory was replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, write_record
from videopro.backbones import Sampling, read_spec
from videopro.backbones.qwen import QwenRunner, load_model, runner, writing
from videopro.backbones.qwen.inputs import EncodedPrompt
from videopro.backbones.qwen.replies import Replies
from videopro.backbones.qwen.static_batch import Layout
from videopro.cli import option
from videopro.pocket import model_dir

_ROWS, _PROMPTS, _MEAN, _LONGEST = 64, 8, 256, 1024
_LESS = 7 * 256
"""Tokens that prompts are shorter by: layouts have room for multiples of 256."""


@dataclass(frozen=True)
class CaptureSettings:
    """Count captured steps."""

    rounds: int = option(6, "rounds of replies")
    spreads: tuple[float, ...] = option((0.5, 1.0), "spreads of the logarithm of the lengths")
    output: Path = option(ROOT / "perf" / "captures.json", "JSON file")


class _Counted:
    """Captures nothing, and notes of which layout."""

    def __init__(self, device: torch.device) -> None:
        self.layouts: list[Layout] = []

    def warm_up(self, step: Callable[[], None]) -> None:
        """Nothing is computed."""

    def capture(self, step: Any) -> SimpleNamespace:
        """What is replayed does nothing either."""
        self.layouts.append(step.__self__.layout)
        return SimpleNamespace(replay=lambda: None)


def _ending_at(lengths: np.ndarray) -> type[Replies]:
    """Replies that end with these lengths."""

    class Drawn(Replies):
        def _as_drawn(self, number: int) -> Replies:
            self._limit = int(lengths[number])
            return super()  # type: ignore[return-value]

        def is_open(self, number: int) -> bool:
            return self._as_drawn(number).is_open(number)

        def left(self, number: int) -> int:
            return self._as_drawn(number).left(number)

        def _extend(self, number: int, *tokens: Any) -> None:
            self._as_drawn(number)._extend(number, *tokens)

    return Drawn


def rounds_of(run: QwenRunner, spread: float, rounds: int) -> dict[str, Any]:
    """Captures of each round, and those of a layout that is new."""
    draw = np.random.default_rng(0)
    with patch.object(writing, "Captures", _Counted):
        writer = run._static = writing.StaticWriter(run.model, cache_name=run._cache, captures=True)
    noted: Any = writer._captures
    captured, new = [], []
    for _ in range(rounds):
        before = len(noted.layouts)
        drawn = draw.lognormal(np.log(_MEAN) - spread**2 / 2, spread, _ROWS)
        lengths = np.clip(drawn, 4, _LONGEST).astype(int)
        widths = draw.integers(1900, 2400, _PROMPTS) - _LESS
        prompts = [
            EncodedPrompt(tuple(draw.integers(300, 800, width).tolist()), (0,) * width) for width in widths
        ]
        with torch.inference_mode(), patch.object(runner, "Replies", _ending_at(lengths)):
            state = run.fork(run.start(prompts), [row * _PROMPTS // _ROWS for row in range(_ROWS)])
            seeds = [(0, row) for row in range(_ROWS)]
            sampling = Sampling(_LONGEST, temperature=1.0)
            run.generate(state, sampling, seeds, banned=(), on_reply=lambda row, reply: None)
        captured.append(len(noted.layouts) - before)
        new.append(len(set(noted.layouts[before:]) - set(noted.layouts[:before])))
        print(f"spread {spread}: {captured[-1]} captured, {new[-1]} of a new layout", flush=True)
    return {"spread": spread, "captured": captured, "new": new}


def count(settings: CaptureSettings) -> None:
    """Count, and write the file."""
    loaded = load_model(read_spec(str(model_dir())))
    run = QwenRunner(loaded.model, ends=(), pad=loaded.processor.tokenizer.pad_token_id)
    rows = [rounds_of(run, spread, settings.rounds) for spread in settings.spreads]
    write_record(settings.output, {"commit": commit_of(ROOT), "kept": writing._MOST_BATCHES, "rows": rows})


if __name__ == "__main__":
    run_command(CaptureSettings, count)
