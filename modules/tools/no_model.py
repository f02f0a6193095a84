"""What stands in for a model where an agent brings its own: no tool that asks a model is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from videopro.backbones import (
    DEFAULT_FRAMES,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Sampling,
    YesNoRequest,
)
from videopro.errors import BackboneError
from videopro.question import Answer


class NoModel(Backbone):
    """A backbone that serves no request."""

    name = "none"
    frames = DEFAULT_FRAMES
    is_concurrent = True

    def identity(self) -> dict[str, object]:
        return {"model": None}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return None

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        _refuse()

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        _refuse()

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling | None = None
    ) -> list[Generation]:
        _refuse()

    def chat(self, messages: Sequence[Mapping[str, Any]], sampling: Sampling | None = None) -> Generation:
        _refuse()

    def prefix(self, frames: Sequence[Any], *, system: str = "") -> NoReturn:
        _refuse()

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


def _refuse() -> NoReturn:
    raise BackboneError("these tools were opened without a model; give one: models={'model': NAME}")
