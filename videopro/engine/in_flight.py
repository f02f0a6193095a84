"""The questions that one process is answering at a time, for its supervisor and for its threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager


class InFlight:
    """The questions that the threads of a process are answering. Thread-safe.

    `report` gets the ids of all of them whenever they change, one call at a time: if the process dies, these
    are the questions that may have killed it. Questions that may have killed one before wait until nothing
    else is in flight, and nothing else begins until they end.
    """

    def __init__(
        self,
        report: Callable[[Sequence[str]], None],
        doing: Callable[[Mapping[str, int]], None] = lambda counts: None,
    ) -> None:
        """`doing` gets what is being done, with the number of units at each, whenever it changes."""
        self._report = report
        self._tell_doing = doing
        self._doing: dict[UnitInFlight, str] = {}
        self._changed = threading.Condition()
        self._groups: dict[UnitInFlight, tuple[str, ...]] = {}
        self._apart: UnitInFlight | None = None
        self._waiting = 0
        """Groups that wait to be the only one."""

    @contextmanager
    def unit(
        self, must_run_apart: Callable[[str], bool] = lambda question_id: False
    ) -> Iterator[UnitInFlight]:
        """What one unit of work reports to within the block; at its end, nothing of it is in flight.
        `must_run_apart`: whether a question must be in flight without those of other units."""
        unit = UnitInFlight(self, must_run_apart)
        try:
            yield unit
        finally:
            unit.answering(())

    def begin(self, unit: UnitInFlight, ids: Sequence[str], *, apart: bool) -> None:
        """Add a unit's questions, when they may run."""
        with self._changed:
            if apart:
                # Counted before the wait, so that units which begin meanwhile queue behind it: otherwise a
                # busy process might never be empty.
                self._waiting += 1
                self._changed.wait_for(lambda: not self._groups)
                self._waiting -= 1
                self._apart = unit
            else:
                self._changed.wait_for(lambda: self._apart is None and not self._waiting)
            self._groups[unit] = tuple(ids)
            self._send()

    def end(self, unit: UnitInFlight) -> None:
        """Remove a unit's questions, if there are any."""
        with self._changed:
            if self._doing.pop(unit, None) is not None:
                self._tell_doing(Counter(self._doing.values()))
            if self._groups.pop(unit, None) is None:
                return
            if self._apart is unit:
                self._apart = None
            self._send()
            self._changed.notify_all()

    def do(self, unit: UnitInFlight, activity: str) -> None:
        """A unit's thread is at something else from now on."""
        with self._changed:
            if self._doing.get(unit) != activity:
                self._doing[unit] = activity
                self._tell_doing(Counter(self._doing.values()))

    def _send(self) -> None:
        self._report([question_id for ids in self._groups.values() for question_id in ids])


class UnitInFlight:
    """The questions of one unit that are in flight, of `InFlight.unit`."""

    def __init__(self, all_units: InFlight, must_run_apart: Callable[[str], bool]) -> None:
        self._all = all_units
        self._must_run_apart = must_run_apart

    def answering(self, ids: Sequence[str]) -> None:
        """The unit's thread is about to answer these questions, in place of those before; empty: it is
        between questions. Waits while no other question may be in flight."""
        self._all.end(self)
        if ids:
            self._all.begin(self, ids, apart=any(map(self._must_run_apart, ids)))

    def doing(self, activity: str) -> None:
        """The current stage of the unit's thread, such as "indexing"."""
        self._all.do(self, activity)
