"""One backbone for many threads: served in batches, or as its requests come if it serves many by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
from videopro.backbones.wrappers.batching import BatchingBackbone
from videopro.backbones.wrappers.wrapper import BackboneWrapper
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.video import Frame


def share_backbone(backbone: Backbone, *, adapter: bool | None = None) -> Backbone:
    """The backbone for any number of threads, with its adapter on, off, or as it is (None).

    A server gets each request as it comes. A model in this process gets those that wait for it in batches
    (`BatchingBackbone`), and what is shared once more waits in the same queue.
    """
    if isinstance(backbone, BatchingBackbone):
        return backbone.with_adapter(adapter)
    if not backbone.is_concurrent:
        return BatchingBackbone(backbone, adapter=adapter)
    return backbone if adapter is None else AdapterBackbone(backbone, adapter)


class AdapterBackbone(BackboneWrapper):
    """A backbone that serves several threads at a time, with its adapter on or off in every call."""

    def __init__(self, inner: Backbone, adapter: bool) -> None:
        super().__init__(inner)
        self._adapter = adapter

    def identity(self) -> dict[str, object]:
        with self.inner.adapter(self._adapter):
            return self.inner.identity()

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        with self.inner.adapter(self._adapter):
            return self.inner.answer_batch(requests)

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        with self.inner.adapter(self._adapter):
            return self.inner.yes_no_batch(requests)

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        with self.inner.adapter(self._adapter):
            return self.inner.generate_batch(requests, sampling)

    def chat(self, messages: Sequence[Mapping[str, Any]], sampling: Sampling = GREEDY) -> Generation:
        with self.inner.adapter(self._adapter):
            return self.inner.chat(messages, sampling)

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        with self.inner.adapter(self._adapter):
            return self.inner.prefix(frames, system=system)

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        raise BackboneError("this backbone has one adapter setting for all callers; switch its inner one's")
