"""The requests for replies of one call and of those that join it, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from videopro.backbones.base import GenerateRequest, Generation, Joining
from videopro.backbones.qwen.heads import PromptHead
from videopro.errors import check_cancelled


@dataclass(frozen=True)
class QueuedReply:
    """A request, its number among all, and the head of its prompt if it can be written with other heads."""

    number: int
    request: GenerateRequest
    head: PromptHead | None


class ReplyQueue:
    """Requests that wait. `head_of`: the head of a request that can join others, else None."""

    def __init__(self, joining: Joining, head_of: Callable[[GenerateRequest], PromptHead | None]) -> None:
        self.joining = joining
        self.apart: list[QueuedReply] = []
        """Those that are written in batches of their own."""
        self._joinable: list[QueuedReply] = []
        self._head_of = head_of
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self.apart or self._joinable)

    @property
    def joinable(self) -> int:
        """Requests that can join a batch while it is written."""
        return len(self._joinable)

    def add(self, requests: Sequence[GenerateRequest]) -> None:
        """Append requests. Raises BackboneError for a prefix that cannot be used."""
        queued = [
            QueuedReply(number, request, self._head_of(request))
            for number, request in enumerate(requests, start=self._added)
        ]
        self._added += len(queued)
        for one in queued:
            (self.apart if one.head is None else self._joinable).append(one)

    def let_join(self, room: int) -> None:
        """Serve what takes a single pass, and append what may join, at most `room` requests; leave out what
        was cancelled meanwhile."""
        self.joining.pause()
        self.leave_out()
        if room > self.joinable:
            self.add(self.joining.take(room - self.joinable))

    def leave_out(self) -> None:
        """Remove the requests for whose replies nobody waits any more."""
        if cancelled := frozenset(self.joining.cancelled()):
            self._joinable = [one for one in self._joinable if one.number not in cancelled]
            self.apart = [one for one in self.apart if one.number not in cancelled]

    def cancelled_rows(self, rows: Sequence[QueuedReply]) -> list[int]:
        """The rows of a batch for whose replies nobody waits any more."""
        cancelled = frozenset(self.joining.cancelled())
        return [row for row, one in enumerate(rows) if one.number in cancelled] if cancelled else []

    def next_joinable(self, room: int) -> list[QueuedReply]:
        """Remove and return the first requests that can join a batch, at most `room`."""
        chosen, self._joinable = self._joinable[:room], self._joinable[room:]
        return chosen

    def take_apart(self) -> list[QueuedReply]:
        """Remove and return all requests that are written in batches of their own."""
        chosen, self.apart = self.apart, []
        return chosen


class Collected:
    """Collects the replies of a call that nobody joins."""

    def __init__(self) -> None:
        self.replies: dict[int, Generation] = {}

    def pause(self) -> None:
        """Nobody else waits."""
        check_cancelled()

    def take(self, room: int) -> Sequence[GenerateRequest]:
        """No requests."""
        return ()

    def cancelled(self) -> Sequence[int]:
        """All or none: the call is one thread's, which `pause` ends."""
        return ()

    def done(self, number: int, reply: Generation) -> None:
        """Keep a reply."""
        self.replies[number] = reply
