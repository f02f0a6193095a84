"""A run as it grows: its traces as they are appended, and the summary's numbers of what is there so far.

Reads only, so that any number of readers may follow a run. Knows the log and the summary; nothing of who
shows or sends the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from videopro.benchmarks.protocol import Protocol
from videopro.runs.folder import RunFolder
from videopro.runs.summary import summarize
from videopro.traces import Call, Execution, Trace, TraceLog


class RunTail:
    """The traces of a run, read on from where the last look ended. The run's log need not exist yet."""

    def __init__(self, folder: RunFolder, protocol: Protocol) -> None:
        self._folder = folder
        self._protocol = protocol
        self._log: TraceLog | None = None
        self.traces: dict[str, Trace] = {}
        """By question, the latest last. Of calls only the intervals, which metrics need, so that thousands of
        questions stay small."""

    def refresh(self) -> int:
        """Read what was appended; returns how many traces. Raises RunError for a broken log."""
        if self._log is None:
            if not self._folder.traces.exists():
                return 0
            self._log = self._folder.log(writable=False)
        new = self._log.refresh()
        for trace in new:
            self.traces.pop(trace.question_id, None)
            self.traces[trace.question_id] = _slim(trace)
        return len(new)

    def numbers(self, about: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The summary of what is there so far."""
        return summarize(list(self.traces.values()), self._protocol, about)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def _slim(trace: Trace) -> Trace:
    def light(execution: Execution) -> Execution:
        calls = tuple(
            Call(one.fn, {}, "", intervals=one.intervals) for one in execution.calls if one.intervals
        )
        return replace(execution, calls=calls)

    rounds = tuple(
        one if one.execution is None else replace(one, execution=light(one.execution)) for one in trace.rounds
    )
    return replace(trace, rounds=rounds)
