"""What a backbone that writes replies does for others meanwhile: single passes between two steps, and more
replies in the same batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from videopro.backbones.base import GenerateRequest, Generation, Sampling


class Joining(Protocol):
    """Who waits while replies are written."""

    def pause(self) -> None:
        """Called between two steps: serve what takes a single pass of the model."""

    def take(self, room: int) -> Sequence[GenerateRequest]:
        """At most `room` more requests to write replies to, with the same sampling."""

    def cancelled(self) -> Collection[int]:
        """The numbers of the requests for whose replies nobody waits any more: they are not written on. One
        that is cancelled stays so."""

    def done(self, number: int, reply: Generation) -> None:
        """A reply is complete: that to the request of this number, those first given before those taken."""


@runtime_checkable
class JoiningBackbone(Protocol):
    """A backbone to whose batches more requests can be added."""

    def generate_joining(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, joining: Joining
    ) -> None:
        """Write replies to these requests and to those that `joining` adds, and hand each to `joining.done`
        as soon as it is complete."""
