"""The base class of backbones that wrap another backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from videopro.backbones.base import (
    GREEDY,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Sampling,
    YesNoRequest,
)
from videopro.question import Answer
from videopro.video import Frame


class BackboneWrapper(Backbone):
    """Forwards every call to the backbone `inner`; subclasses override what they change."""

    def __init__(self, inner: Backbone) -> None:
        self.inner = inner
        """The wrapped backbone."""
        self.name = inner.name
        self.frames = inner.frames
        self.planner = inner.planner
        self.record = inner.record
        self.server_settings = inner.server_settings
        self.is_concurrent = inner.is_concurrent

    @property
    def device(self) -> object:
        """Where the inner one's model is, for models that go beside it; None if it is not in this process."""
        return getattr(self.inner, "device", None)

    @property
    def context_tokens(self) -> int | None:  # type: ignore[override]
        return self.inner.context_tokens

    @property
    def checkpoint(self) -> Path | None:  # type: ignore[override]
        return self.inner.checkpoint

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.inner.notes

    @property
    def versions(self) -> Mapping[str, str]:  # type: ignore[override]
        return self.inner.versions

    def identity(self) -> dict[str, object]:
        return self.inner.identity()

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return self.inner.frame_size(height, width, n_frames)

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return self.inner.answer_batch(requests)

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        return self.inner.yes_no_batch(requests)

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        return self.inner.generate_batch(requests, sampling)

    def chat(self, messages: Sequence[Mapping[str, Any]], sampling: Sampling = GREEDY) -> Generation:
        return self.inner.chat(messages, sampling)

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        return self.inner.prefix(frames, system=system)

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return self.inner.adapter(enabled)

    def close(self) -> None:
        self.inner.close()
