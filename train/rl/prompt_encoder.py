"""Encodes the policy's prompts: tokens, positions and vision features, computed once for all rollouts,
log-prob passes and later steps.

Uses the code that builds the planner's prompt in inference (`videopro.backbones.qwen.inputs`), on frames that
were decoded once (`videopro.train.runtime.frame_cache`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from cachetools import LRUCache

from videopro.backbones.qwen import (
    EncodedPrompt,
    QwenInputs,
    QwenRunner,
    encode_vision,
    features_bytes,
)
from videopro.train.rl.data import GRPORow
from videopro.train.runtime import FrameCache


@dataclass(frozen=True, eq=False)
class PolicyPrompt:
    """One encoded prompt; the rollouts of a group share the object."""

    encoded: EncodedPrompt
    positions: torch.Tensor
    """M-RoPE positions, (3, tokens)."""
    next_position: int
    """The M-RoPE position of a reply's first token."""
    head: int = 0
    """The number of leading tokens, up to the end of the video, that all prompts with this system turn and
    this text before the video share."""

    def begins_as(self, other: PolicyPrompt) -> bool:
        """Whether both prompts have the same head."""
        return self.encoded.ids[: self.head] == other.encoded.ids[: other.head]


@dataclass
class PromptEncoder:
    """Encodes the prompts of rows.

    `frozen`: the vision tower and the projector are not trained; a video's features then replace its
    pixels, and those of the most recently used videos are kept on the model's device, up to `kept_bytes`
    bytes.
    """

    inputs: QwenInputs
    frames: FrameCache
    run: QwenRunner
    _: KW_ONLY
    frozen: bool
    kept_bytes: int
    looked: int = field(default=0, init=False)
    """Videos whose features were computed in order to be kept."""

    def __post_init__(self) -> None:
        # One head a video: a run whose rows show a video after several texts keeps its features once.
        self._heads: LRUCache[Path, tuple[_Start, EncodedPrompt]] = LRUCache(
            self.kept_bytes, lambda entry: features_bytes(entry[1].features)
        )

    def encode(self, rows: Sequence[GRPORow]) -> list[PolicyPrompt]:
        """The prompts of rows; rows with equal prompts share one object. Runs the vision tower, without
        gradients, on videos whose features are not kept. Raises VideoError or BackboneError."""
        distinct: dict[tuple[_Start, str], PolicyPrompt] = {}
        heads: dict[_Start, EncodedPrompt] = {}
        prompts = []
        for row in rows:
            start = _start(row)
            if (start, row.prompt) not in distinct:
                if not row.prompt_video:
                    distinct[start, row.prompt] = self._placed(
                        self.inputs.text(row.text, system=row.system), 0
                    )
                else:
                    if start not in heads:
                        heads[start] = self._head(row, start)
                    encoded = heads[start].append_text(self.inputs.tail(row.prompt))
                    distinct[start, row.prompt] = self._placed(encoded, len(heads[start].ids))
            prompts.append(distinct[start, row.prompt])
        return prompts

    def _placed(self, encoded: EncodedPrompt, head: int) -> PolicyPrompt:
        positions, next_position = self.run.positions(encoded)
        return PolicyPrompt(encoded, positions[:, 0], next_position, head)

    def _head(self, row: GRPORow, start: _Start) -> EncodedPrompt:
        """The head of a row's prompt. All heads that show a video share its features."""
        cached = self._heads.get(row.video)
        if cached is not None and cached[0] == start:
            return cached[1]
        head = self.inputs.head(self.frames.frames(row.video), system=row.system, before=row.before)
        if not self.frozen:
            return head
        # The same video after another system turn or text: its features are the same.
        if cached is not None:
            return replace(head, tensors=cached[1].tensors, features=cached[1].features)
        core: Any = self.run.model
        with torch.no_grad():
            head = encode_vision(core.model, head, self.run.device)
        self.looked += 1
        # The cache raises for an entry that is larger than all of it.
        if features_bytes(head.features) <= self._heads.maxsize:
            self._heads[row.video] = start, head
        return head


_Start = tuple[Path | None, str | None, str]
"""What decides the head of a prompt: the video (None: not shown), the system turn and the text before it."""


def _start(row: GRPORow) -> _Start:
    return (row.video if row.prompt_video else None, row.system, row.before)


_MAX_LENGTH_RATIO = 2
"""The longest prompt of a batch has at most this many times the tokens of its shortest."""


def batches_by_length(prompts: Sequence[PolicyPrompt]) -> Iterator[list[int]]:
    """Batches of prompts of similar length, as lists of indices. Otherwise one refinement prompt with a long
    log would have all others padded to its length."""
    batch: list[int] = []
    shortest = 0
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number].encoded.ids)):
        length = len(prompts[number].encoded.ids)
        if batch and length > _MAX_LENGTH_RATIO * shortest:
            yield batch
            batch = []
        if not batch:
            shortest = length
        batch.append(number)
    if batch:
        yield batch
