"""The append-only file of a run: one trace a line, safe under several writers and under kill -9.

A trace is appended under the file's lock, after reading what others appended since: a question that is there
is not written again. Knows traces, and nothing of workers, methods or scoring.
"""

from __future__ import annotations

from pathlib import Path

from videopro.errors import RunError
from videopro.storage import JsonLinesLog
from videopro.traces.record import LaterSchema, Trace

# Of lines that do not belong, so many stretches are told.
_STRETCHES = 5


def read_traces(path: Path, run_key: str | None = None) -> list[Trace]:
    """The traces of a run, one a question, in the order in which they were written.

    `run_key`: the run's; None: the first line's. Reads only: a torn last line is left out and stays where it
    is. Raises RunError for a missing file, a broken line, or a line of another run or of a later version.
    """
    log = TraceLog(path, run_key=run_key, writable=False)
    try:
        traces: dict[str, Trace] = {}
        for trace in log.refresh():
            # A question whose error was redone has two lines; the later one counts.
            traces.pop(trace.question_id, None)
            traces[trace.question_id] = trace
        return list(traces.values())
    finally:
        log.close()


class TraceLog:
    """The file `traces.jsonl` of a run. It reads nothing until `refresh` or `append` is called.

    Every line is of one run: of `run_key`, or, where that is None, of the first line's. With `writable`, the
    file is made if it is missing (its folder must exist). `redo_errors` makes a question whose trace has an
    error count as not done until this object sees a further trace of it; both lines stay in the file. Raises
    RunError for a file that cannot be opened.
    """

    def __init__(
        self, path: Path, *, run_key: str | None = None, writable: bool = True, redo_errors: bool = False
    ) -> None:
        self.path = path
        self._run_key = run_key
        self._done: set[str] = set()
        self._writable = writable
        self._redo_errors = redo_errors
        self._offset = 0
        self._line = 0
        self._file = JsonLinesLog(path, writable=writable)

    @property
    def torn(self) -> int:
        """Torn last lines that this object cut."""
        return self._file.torn

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def refresh(self) -> list[Trace]:
        """Read what was appended since the last call, by any process. Raises RunError for a line that is
        broken, of another run or of a later version, naming it.

        The first call of a writable log cuts a torn last line.
        """
        if self._writable and self._offset == 0:
            with self._file.locked():
                traces = self._read_new()
                self._file.cut_torn_tail()
                return traces
        return self._read_new()

    def is_done(self, question_id: str) -> bool:
        """Whether the question needs no further work, as far as this object has read."""
        return question_id in self._done

    def append(self, trace: Trace) -> bool:
        """Write one trace durably; False, and nothing is written, if its question is done already.

        On a full disk (or any other failure to write) the file is left as it was, and RunError is raised.
        """
        line = trace.to_line()
        with self._file.locked():
            self._read_new()
            if self.is_done(trace.question_id):
                return False
            self._file.append_lines(line)
            # Its own line counts as read: the caller knows this trace, and a redone error must not be redone.
            self._offset += len(line)
            self._line += 1
            self._done.add(trace.question_id)
        return True

    def _read_new(self) -> list[Trace]:
        """Parse the whole lines after the last one read."""
        first_time = self._offset == 0
        new = self._file.read(self._offset)
        traces = []
        foreign: list[tuple[int, str]] = []
        for line in new.split(b"\n")[:-1]:
            self._line += 1
            try:
                trace = Trace.from_line(line)
            except LaterSchema as error:
                raise RunError(f"{self.path}, line {self._line}: {error}; use that version") from error
            except RunError as error:
                raise RunError(
                    f"{self.path}, line {self._line}: {error}; delete that line and give the same "
                    "command again: its question will be answered anew"
                ) from error
            self._run_key = self._run_key or trace.run_key
            if trace.run_key != self._run_key:
                foreign.append((self._line, trace.run_key))
                continue
            traces.append(trace)
            # Errors that were there before this object came are open again; those written since are not.
            if not (self._redo_errors and first_time and trace.error):
                self._done.add(trace.question_id)
        if foreign:
            raise RunError(
                f"{self.path}: {_places([line for line, _ in foreign])} of another run (run_key "
                f"{foreign[0][1]!r}, and this run's is {self._run_key!r}); delete what is of another run, or "
                "move it to its own folder, and give the same command again"
            )
        self._offset += len(new)
        return traces


def _places(lines: list[int]) -> str:
    """ "line 3 is", or "lines 3 to 5 and 9 are": which lines, the first few stretches of them."""
    stretches: list[list[int]] = []
    for line in lines:
        if stretches and line == stretches[-1][1] + 1:
            stretches[-1][1] = line
        else:
            stretches.append([line, line])
    told = [str(first) if first == last else f"{first} to {last}" for first, last in stretches]
    if len(told) > _STRETCHES:
        told = [*told[:_STRETCHES], "others"]
    listed = " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)
    return f"line {listed} is" if len(lines) == 1 else f"lines {listed} ({len(lines)} in all) are"
