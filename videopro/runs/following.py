"""Follow a run in progress: its traces as they are appended, and the summary so far. Read-only, so any number
of readers can follow a run.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from videopro.benchmarks import Protocol
from videopro.errors import ExceptionRecord, RunError
from videopro.runs.folder import RunFolder
from videopro.runs.summary import summarize
from videopro.traces import Call, Execution, FrameRef, Step, Trace, TraceLog, moment, wanted_time


class RunTail:
    """The traces of a run, read incrementally. The run's log need not exist yet."""

    def __init__(
        self, folder: RunFolder, protocol: Protocol, keep: Callable[[Trace], Trace] | None = None
    ) -> None:
        """`keep`: what is kept of a trace in memory; None: what summaries count."""
        self._folder = folder
        self._protocol = protocol
        self._keep = keep or _slim
        self._log: TraceLog | None = None
        self.traces: dict[str, Trace] = {}
        """What is kept, by question id, the latest last."""

    def refresh(self, most: int = sys.maxsize) -> list[Trace]:
        """Read the appended traces, of about `most` bytes, and return them in full. Raises RunError for an
        invalid log."""
        if self._log is None:
            if not self._folder.traces.exists():
                return []
            self._log = self._folder.log(writable=False)
        new = self._log.refresh(most)
        self._folder.set_aside.tell()
        for trace in new:
            # Taken out first: an answer that was made again comes last.
            self.traces.pop(trace.question_id, None)
            self.traces[trace.question_id] = self._keep(trace)
        return new

    def reread(self, question_id: str) -> Trace:
        """The trace in full of a question in `traces`, from the file."""
        assert self._log is not None
        return self._folder.with_video(self._log.reread(question_id))

    def summary(self, about: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The summary of the traces so far."""
        return summarize(list(self.traces.values()), self._protocol, about)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def _slim(trace: Trace) -> Trace:
    """The trace with what summaries count: intervals, the moments that were seen, steps without texts."""
    seen: set[FrameRef] = set()

    def new(frames: Iterable[FrameRef]) -> tuple[FrameRef, ...]:
        """A reference to each moment that no earlier call or step looked at, shortened unless the frame
        replaces another."""
        refs = {frame if wanted_time(frame) is not None else (moment(frame),) for frame in frames} - seen
        seen.update(refs)
        return tuple(sorted(refs))

    def short(exception: ExceptionRecord) -> ExceptionRecord:
        return replace(exception, traceback="")

    def light(execution: Execution) -> Execution:
        calls = tuple(
            Call(call.fn, {}, "", frames=new(call.frames), intervals=call.intervals)
            for call in execution.calls
            if call.intervals or call.frames
        )
        steps = tuple(replace(_light_step(step), frames=new(step.frames)) for step in execution.steps)
        exceptions = tuple(map(short, execution.exceptions))
        return replace(execution, calls=calls, steps=steps, exceptions=exceptions)

    rounds = tuple(
        replace(attempt, prompt=None, execution=attempt.execution and light(attempt.execution))
        for attempt in trace.rounds
    )
    return replace(trace, rounds=rounds, ended_by=trace.ended_by and short(trace.ended_by))


def _light_step(step: Step) -> Step:
    reply = hashlib.sha256(repr((step.prompt, step.frames, step.raw)).encode()).hexdigest()
    return Step(
        step.kind,
        step.model,
        step.round,
        # Still tells replies apart, so that reused ones are found.
        prompt=reply,
        parsed=None if step.parsed is None else dict.fromkeys(step.parsed),
        rejected=("",) * len(step.rejected),
        faults=("",) * len(step.faults),
        is_reused=step.is_reused,
        cost=step.cost,
    )


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders at `paths`, each once: a path itself, or the runs inside it in alphabetical order.

    A run that has no answers yet is found only at its own path. Raises RunError for a path without a run.
    """
    runs: dict[Path, Path] = {}
    for path in paths:
        for run in _runs_at(path):
            runs.setdefault(run.resolve(), run)
    return list(runs.values())


def _runs_at(path: Path) -> list[Path]:
    folder = RunFolder(path)
    if folder.config.exists() or folder.traces.exists():
        return [path]
    inside = sorted(_runs_inside(path))
    if not inside:
        missing = "contains no run" if path.is_dir() else "no such folder"
        raise RunError(
            f"{path}: {missing}; pass the folder of a run of `videopro infer`, or a folder of several runs"
        )
    return inside


def _runs_inside(path: Path) -> Iterator[Path]:
    for name, folders, _ in os.walk(path):
        run = RunFolder(Path(name))
        if run.config.exists() and run.traces.exists():
            folders.clear()  # A run's own subfolders, such as the pages of the viewer, hold no further runs.
            yield run.path
