"""Which items a cluster's workers get next, and which are blamed for a worker's death: the rules of the queue
on one machine (`videopro.engine.queue`), kept by one process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from videopro.engine.queue import CrashRecord, Unit

ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class Task(Generic[ItemT]):
    """Items of one video that a worker gets at once."""

    items: tuple[ItemT, ...]

    @property
    def ids(self) -> list[str]:
        return [_id(item) for item in self.items]


class Schedule(Generic[ItemT]):
    """The items that no worker has, in order.

    `crashes`: the deaths so far; `died(ids, reason)` is called for each further one, to record it.
    """

    def __init__(
        self,
        units: Sequence[Unit[Any]],
        crashes: CrashRecord,
        died: Callable[[Sequence[str], str], None] = lambda ids, reason: None,
    ) -> None:
        self._crashes = crashes
        self._died = died
        self._units: deque[tuple[ItemT, ...]] = deque(unit.items for unit in units)
        self._apart: deque[tuple[ItemT, ...]] = deque()
        """Items that a worker gets when it has nothing else, so that another death says more."""
        self._quarantined: list[ItemT] = []
        self._lost: Counter[str] = Counter()
        """How often each item was on a node that was lost."""

    def __len__(self) -> int:
        """How many tasks busy workers may still get."""
        return len(self._units)

    def is_empty(self) -> bool:
        """Whether nothing is left to hand out."""
        self._sort()
        return not (self._units or self._apart or self._quarantined)

    def stop(self) -> None:
        """Hand out nothing more."""
        self._units.clear()
        self._apart.clear()

    def take(self) -> Task[ItemT] | None:
        """The next items that a busy worker may have too; None if there are none."""
        self._sort()
        return Task(self._units.popleft()) if self._units else None

    def take_apart(self) -> Task[ItemT] | None:
        """The next items for a worker that has nothing else meanwhile; None if there are none."""
        return Task(self._apart.popleft()) if self._apart else None

    def wants_idle_worker(self) -> bool:
        """Whether items must run apart from others."""
        self._sort()
        return bool(self._apart)

    def take_quarantined(self) -> list[tuple[ItemT, str]]:
        """Items that no worker gets any more, each with the reason."""
        self._sort()
        quarantined, self._quarantined = self._quarantined, []
        return [(item, self._crashes.reasons[_id(item)]) for item in quarantined]

    def give_back(self, tasks: Sequence[Task[ItemT]], done: Callable[[str], bool]) -> None:
        """The tasks' items that are not done come next, without blame."""
        for task in reversed(tasks):
            left = tuple(item for item in task.items if not done(_id(item)))
            if left:
                self._units.appendleft(left)

    def blame(self, tasks: Sequence[Task[ItemT]], reason: str) -> None:
        """A worker died while it had these tasks."""
        ids = [name for task in tasks for name in task.ids]
        if ids:
            self._crashes.add(ids, reason)
            self._died(ids, reason)

    def blame_for_node(self, tasks: Sequence[Task[ItemT]], reason: str) -> None:
        """A node was lost with a worker that had these tasks. Nodes go for many reasons, so the first loss
        blames nobody; a second one with the same items counts as a worker's death."""
        ids = [name for task in tasks for name in task.ids]
        self._lost.update(ids)
        if any(self._lost[name] > 1 for name in ids):
            self.blame(tasks, reason)

    def _sort(self) -> None:
        """Take the suspects out of the first units, until one is left that may be handed out."""
        while self._units:
            items = self._units.popleft()
            shared, apart = [], []
            for item in items:
                if self._crashes.is_quarantined(_id(item)):
                    self._quarantined.append(item)
                elif self._crashes.must_run_alone(_id(item)):
                    self._apart.append((item,))
                elif self._crashes.must_run_apart(_id(item)):
                    apart.append(item)
                else:
                    shared.append(item)
            if apart:
                self._apart.append(tuple(apart))
            if shared:
                self._units.appendleft(tuple(shared))
                return


def _id(item: Any) -> str:
    return str(item.id)
