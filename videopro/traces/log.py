"""The append-only trace log of a run: one trace per line, and a second file with the beginnings of the
prompts. Safe under several writers and under kill -9.

A trace is appended under the file's lock, after reading what others have appended meanwhile: a question that
is in the log is not written again.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from videopro.errors import RunError, cannot_write
from videopro.storage import JsonLinesLog, SetAside, write_atomically
from videopro.traces.prompts import PromptHeads, head_key, prompts_path, remove_heads
from videopro.traces.record import LaterSchema, Round, Trace, UnstorableTrace

# A message names at most this many ranges of foreign lines.
_MAX_RANGES = 5
# What to do where the files of a run are not those that its answers are about.
OTHER_FILES = "put it back, pass another --output, or add --redo-changed to answer those questions again"
_OUTCOME = "questions without other lines are unanswered; re-run the run's command to answer them"


@dataclass(frozen=True)
class Redo:
    """Which answered questions of a run are answered again."""

    errors: bool = False
    """Questions that ended in an error."""
    changed: frozenset[tuple[str, str, str]] = frozenset()
    """(question, `VideoRef.id`, `VideoRef.text_id`) of answers whose video or subtitles changed."""

    def is_changed(self, trace: Trace) -> bool:
        """Whether the answer's video or subtitles changed."""
        return (trace.question_id, trace.video.id, trace.video.text_id) in self.changed

    def __contains__(self, trace: Trace) -> bool:
        return (self.errors and trace.error is not None) or self.is_changed(trace)


NO_REDO = Redo()


def set_aside_traces(path: Path) -> SetAside:
    """The lines of a trace file that are not traces; empty so far."""
    return SetAside(path, _OUTCOME)


def read_traces(path: Path, run_key: str | None = None, *, set_aside: SetAside | None = None) -> list[Trace]:
    """The traces of a run, one per question, in the order in which they were written.

    `run_key`: the run's; None: the first line's. Read-only: a torn last line is left out and stays in the
    file; so does a line that is not a trace, which is reported (of the lines in `set_aside` only the new
    ones). Raises RunError for a missing file, or a line of another run or of a later version.
    """
    log = TraceLog(path, run_key=run_key, writable=False, set_aside=set_aside)
    try:
        traces: dict[str, Trace] = {}
        for trace in log.refresh():
            # A question that was redone after an error has two lines; the later one counts.
            traces.pop(trace.question_id, None)
            traces[trace.question_id] = trace
        log.set_aside.tell()
        return list(traces.values())
    finally:
        log.close()


def remove_traces(path: Path, question_ids: Collection[str]) -> None:
    """Remove questions from a file of traces, and from its prompts the heads that only they have; a file
    without a question goes. Each file is replaced at once, so a kill leaves either the old file or the new
    one. A log that has it open must be opened again. Raises RunError."""
    with JsonLinesLog(path) as file, file.locked():
        kept, keys = [], set[str]()
        for line in file.read().split(b"\n")[:-1]:
            with suppress(RunError):  # What is no trace stays.
                trace = Trace.from_line(line)
                if trace.question_id in question_ids:
                    continue
                keys |= {round.prompt.key for round in trace.rounds if round.prompt is not None}
            kept.append(line)
        try:
            # First: if a kill comes in between, the questions are still there, to be removed again.
            remove_heads(path, keys)
            if kept:
                write_atomically(path, b"".join(line + b"\n" for line in kept))
            else:
                path.unlink()
        except OSError as error:
            raise RunError(cannot_write(path, error)) from error


class TraceLog:
    """The file `traces.jsonl` of a run, with `prompts.jsonl` next to it. It reads nothing until
    `refresh` or `append` is called.

    Every line must belong to the run `run_key`, or, if that is None, to the run of the first line. A line
    that is not a trace is put into `set_aside`, and its question counts as not answered. With `writable`, a
    missing file is created (its folder must exist). A question whose trace is in `redo` counts as not done
    until this object sees another trace of it; both lines stay in the file. Raises RunError for a file that
    cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        run_key: str | None = None,
        writable: bool = True,
        redo: Redo = NO_REDO,
        set_aside: SetAside | None = None,
    ) -> None:
        self.path = path
        self.set_aside = set_aside if set_aside is not None else set_aside_traces(path)
        self._run_key = run_key
        self._done: dict[str, tuple[int, int]] = {}
        """The questions that need no further work, with the place of their line: first byte, bytes."""
        self._writable = writable
        self._redo = redo
        self._contents: dict[tuple[str, str], tuple[str, str]] = {}
        """The contents that answers are about: the hash, and the first question about it, by
        `VideoRef.contents`."""
        self._offset = 0
        self._line = 0
        # A question whose trace a power cut takes is answered again, so none needs to wait for the disk.
        self._file = JsonLinesLog(path, writable=writable, syncs_behind=True)
        self._heads = PromptHeads(prompts_path(path))

    @property
    def torn(self) -> int:
        """Number of torn last lines that this object cut."""
        return self._file.torn

    def close(self) -> None:
        """Close the file. Raises RunError if a trace did not reach the disk."""
        self._file.close()

    def refresh(self, most: int = sys.maxsize) -> list[Trace]:
        """Read what was appended since the last call, by any process: about `most` bytes of it.

        The first call of a writable log cuts a torn last line. Raises RunError for a line of another run or
        of a later version, naming it.
        """
        if self._writable and self._offset == 0:
            with self._file.locked():
                traces = self._read_new()
                self._file.cut_torn_tail()
                return traces
        return self._read_new(most)

    def reread(self, question_id: str) -> Trace:
        """The latest trace of a question that is done, from the file."""
        return Trace.from_line(self._file.read(*self._done[question_id]))

    def is_done(self, question_id: str) -> bool:
        """Whether the question needs no further work, as far as this object has read."""
        return question_id in self._done

    def append(self, trace: Trace) -> bool:
        """Write a trace; the disk has it a moment later, and at the latest when this is closed. Returns
        False, and writes nothing, if its question is already done. Of a trace that cannot be stored, the
        question is written with that error.

        On a full disk (or any other failed write) the file does not change and RunError is raised.
        """
        return self.append_all([trace]) == 1

    def append_all(self, traces: Sequence[Trace]) -> int:
        """Write traces at once, all or none. Returns how many were written: those whose question was not
        done. Raises as `append`, and RunError if the video or subtitles differ from an earlier answer's."""
        lines = {trace.question_id: _line_of(trace) for trace in traces}
        with self._file.locked():
            self._read_new()
            new = {name: line for name, line in lines.items() if not self.is_done(name)}
            for trace in traces:
                if trace.question_id in new:
                    self._check_contents(trace)
            if new:
                # First: a trace never names a head that is not there.
                self._heads.store(_heads_of(trace for trace in traces if trace.question_id in new))
                self._file.append_lines(b"".join(new.values()))
            # Its own lines count as read: the caller knows them, and a redone error must not be redone.
            for name, line in new.items():
                self._done[name] = self._offset, len(line)
                self._offset += len(line)
            self._line += len(new)
        return len(new)

    def _read_new(self, most: int = sys.maxsize) -> list[Trace]:
        """Parse the complete lines after the last one read, about `most` bytes of them."""
        first_time = self._offset == 0
        new = self._file.read(self._offset, most)
        end = self._offset
        traces = []
        foreign: list[tuple[int, str]] = []
        for line in new.split(b"\n")[:-1]:
            self._line += 1
            start, end = end, end + len(line) + 1
            try:
                trace = Trace.from_line(line)
            except LaterSchema as error:
                raise RunError(f"{self.path}, line {self._line}: {error}; use that version") from error
            except RunError as error:
                self.set_aside.add(self._line, error)
                continue
            self._run_key = self._run_key or trace.run_key
            if trace.run_key != self._run_key:
                foreign.append((self._line, trace.run_key))
                continue
            traces.append(trace)
            # Only what was in the file before this object was created is redone.
            if first_time and trace in self._redo:
                self._done.pop(trace.question_id, None)
                continue
            self._done[trace.question_id] = start, end - start
            for what, content in trace.video.contents().items():
                self._contents[what] = (content, trace.question_id)
        if foreign:
            raise RunError(
                f"{self.path}: {_line_ranges([line for line, _ in foreign])} of another run (run_key "
                f"{foreign[0][1]!r}; this run's is {self._run_key!r}); delete those lines, or move them to "
                "their own folder, and re-run the same command"
            )
        self._offset += len(new)
        return traces

    def _check_contents(self, trace: Trace) -> None:
        """Raise RunError if the trace's video or subtitles differ from earlier ones of the same name."""
        for (video, kind), content in trace.video.contents().items():
            before, question = self._contents.setdefault((video, kind), (content, trace.question_id))
            if content != before:
                raise RunError(
                    f"{self.path}: {kind} of {video!r} ({trace.video.path}) changed since question "
                    f"{question!r} was answered; {trace.question_id!r} was not written: {OTHER_FILES}"
                )


def _heads_of(traces: Iterable[Trace]) -> Iterator[str]:
    for trace in traces:
        for round in trace.rounds:
            if round.prompt is not None and round.prompt.head:
                yield round.prompt.head


def _with_key(round: Round) -> Round:
    """The round with the key of its prompt's head in place of the head."""
    if round.prompt is None or not round.prompt.head:
        return round
    return replace(round, prompt=replace(round.prompt, head="", key=head_key(round.prompt.head)))


def _line_of(trace: Trace) -> bytes:
    try:
        return replace(trace, rounds=tuple(map(_with_key, trace.rounds))).to_line()
    except UnstorableTrace as error:
        return trace.without_result(error).to_line()


def _line_ranges(lines: list[int]) -> str:
    """The lines as text, the first few ranges of them: "line 3 is", or "lines 3 to 5 and 9 are"."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and line == ranges[-1][1] + 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    if len(parts) > _MAX_RANGES:
        parts = [*parts[:_MAX_RANGES], "others"]
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)
    return f"line {text} is" if len(lines) == 1 else f"lines {text} ({len(lines)} in all) are"
