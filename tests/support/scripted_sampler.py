"""A sampler in an engine's place, whose replies depend on their seeds alone: runs that sample ahead and runs
that do not get the same ones, whatever the policy was."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from videopro.backbones import Sampling
from videopro.backbones.qwen import SampledReply
from videopro.train.rl.samplers import Draw, OnReply


@dataclass(frozen=True)
class Written:
    """What was asked for in one call."""

    version: int | None
    draws: tuple[tuple[str, str, tuple[int, int]], ...]
    """Row, kind of prompt and seed."""
    thread: str
    newest: int
    """The newest version at that time."""


class ScriptedSampler:
    """`before` is called with the number of a call before its replies are made, in the thread that asks."""

    is_remote = True

    def __init__(self, before: Callable[[int], object] = lambda call: None) -> None:
        self.version = -1
        self.served: list[int] = []
        """The versions that an engine has."""
        self.written: list[Written] = []
        self._before = before
        self._one_at_a_time = threading.Lock()

    def sync(self, step: int, keep: int | None = None) -> None:
        self.version = step
        self.served += [step] if step not in self.served else []
        while len(self.served) > 2:
            self.served.remove(next(version for version in self.served if version != keep))

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        assert self._one_at_a_time.acquire(blocking=False), "two rounds were written at a time"
        try:
            assert version in self.served
            asked = tuple((draw.row.id, draw.row.kind, draw.seed) for draw in draws)
            thread = threading.current_thread().name
            self.written.append(Written(version, asked, thread, self.version))
            self._before(len(self.written) - 1)
            replies = [reply(draw.seed) for draw in draws]
            for number, each in enumerate(replies):
                on_reply(number, each)
            return replies
        finally:
            self._one_at_a_time.release()

    def close(self) -> None:
        pass


def reply(seed: tuple[int, int]) -> SampledReply:
    """Up to five tokens, each with a log-probability; it ends by its length."""
    chance = random.Random(repr(seed))
    ids = [chance.randrange(20, 90) for _ in range(chance.randrange(1, 6))]
    return SampledReply(ids, [-4.5 + chance.random() / 2 for _ in ids])


def making(sampler: ScriptedSampler) -> dict[str, Any]:
    """The settings of a trainer that samples with it."""
    return {"make_sampler": lambda policy, ends: sampler}
