"""Prompts of a policy in training: tokens, positions and vision features, each made once for all of its
rollouts, log-prob passes and later steps.

Made by the code that makes the planner's prompt in inference (`videopro.backbones.qwen.inputs`) from frames
that were decoded once (`videopro.train.runtime.frame_cache`). Knows rows, inputs and the vision tower; must
not know trainers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from cachetools import LRUCache

from videopro.backbones.qwen import (
    EncodedPrompt,
    QwenInputs,
    QwenRun,
    encode_vision,
    features_bytes,
    takes_features,
)
from videopro.train.rl.data import GRPORow
from videopro.train.runtime import FrameCache


@dataclass(frozen=True, eq=False)
class PolicyPrompt:
    """One prompt; the rollouts of a group hold the same object."""

    encoded: EncodedPrompt
    positions: torch.Tensor
    """M-RoPE positions, (3, tokens)."""
    following: int
    """The position of the first token of a reply."""
    head: int = 0
    """Tokens of the video that it begins with, which every prompt about that video begins with."""


class PromptEncoder:
    """Makes prompts of rows.

    `frozen`: the vision tower and the projector never change; a video's features then take the place of its
    pixels, and those of the videos used last are kept, up to `kept_bytes` of them, on the model's device
    (those of one video that are more than that are not).
    Where the model takes no features (transformers before 5.18), a warning says so and the tower runs in
    every pass.
    """

    def __init__(
        self, inputs: QwenInputs, frames: FrameCache, run: QwenRun, *, frozen: bool, kept_bytes: int
    ) -> None:
        self._inputs = inputs
        self._frames = frames
        self._run = run
        model: Any = run.model
        self._keeps = frozen and takes_features(type(model.model))
        if frozen and not self._keeps:
            warnings.warn(
                f"transformers {transformers.__version__} takes no features in place of pixels: every pass "
                "runs the vision tower anew; 5.18 and newer run it once a video",
                stacklevel=2,
            )
        self._heads: LRUCache[Path, EncodedPrompt] = LRUCache(
            kept_bytes, lambda head: features_bytes(head.features)
        )
        self.looked = 0
        """Videos that went through the vision tower to be kept."""

    def of(self, rows: Sequence[GRPORow]) -> list[PolicyPrompt]:
        """Prompts of rows: one object for rows that ask the same.
        Runs the vision tower, without gradients, on videos whose features are not kept. Raises VideoError or
        BackboneError."""
        made: dict[tuple[Path | None, str], PolicyPrompt] = {}
        heads: dict[Path, EncodedPrompt] = {}
        prompts = []
        for row in rows:
            video, text = row.video if row.prompt_video else None, row.prompt
            if (video, text) not in made:
                if video is None:
                    made[video, text] = self._placed(self._inputs.text(text), 0)
                else:
                    if video not in heads:
                        heads[video] = self._head(video)
                    encoded = heads[video].append_text(self._inputs.tail(text))
                    made[video, text] = self._placed(encoded, len(heads[video].ids))
            prompts.append(made[video, text])
        return prompts

    def _placed(self, encoded: EncodedPrompt, head: int) -> PolicyPrompt:
        positions, following = self._run.positions(encoded)
        return PolicyPrompt(encoded, positions[:, 0], following, head)

    def _head(self, video: Path) -> EncodedPrompt:
        if video in self._heads:
            return self._heads[video]
        head = self._inputs.head(self._frames.frames(video))
        if not self._keeps:
            return head
        core: Any = self._run.model
        with torch.no_grad():
            head = encode_vision(core.model, head, self._run.device)
        self.looked += 1
        if features_bytes(head.features) <= self._heads.maxsize:
            self._heads[video] = head
        return head


_MAX_LENGTH_RATIO = 2
"""How many times the shortest prompt of a batch its longest may be."""


def batches_by_length(prompts: Sequence[PolicyPrompt], most: int) -> Iterator[list[int]]:
    """Batches of at most `most` prompts, as their numbers, in which little is padding: one refinement prompt
    with a long log would have every other prompt padded to it, and read at its length with each token."""
    batch: list[int] = []
    shortest = 0
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number].encoded.ids)):
        length = len(prompts[number].encoded.ids)
        if batch and (len(batch) == most or length > _MAX_LENGTH_RATIO * shortest):
            yield batch
            batch = []
        if not batch:
            shortest = length
        batch.append(number)
    if batch:
        yield batch
