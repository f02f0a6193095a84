"""What `videopro ask --json` prints: one JSON object a line, and nothing else on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import TracebackType
from typing import Any, Self

from videopro.commands.ask.keeping import QuestionFailed, Stored
from videopro.errors import Failure
from videopro.methods import EventObserver, error_event, evidence, last_event
from videopro.question import Question
from videopro.traces import Result
from videopro.video import Video


class JsonObserver(EventObserver):
    """Prints each event as it happens. Within its context, what a library prints goes to stderr."""

    def __init__(self) -> None:
        stream = sys.stdout
        super().__init__(lambda event: _print(event, stream))
        self._elsewhere = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        self._elsewhere.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._elsewhere.__exit__(kind, error, trace)

    def show(self, result: Result, question: Question, video: Video, stored: Stored | None) -> None:
        """The evidence, where it is stored, and the answer."""
        for piece in evidence(result, (video.width, video.height)):
            self.emit({"type": "evidence", **piece})
        if stored is not None:
            self.emit({"type": "stored", "folder": str(stored.folder), "question_id": stored.question_id})
        self.emit(last_event(result, question))


@contextmanager
def errors_as_json() -> Iterator[None]:
    """An exception of the block is the last object, besides what it does otherwise."""
    try:
        yield
    except Exception as error:
        if isinstance(error, QuestionFailed):
            event = error_event(error.failure, error.cost)
        else:
            event = error_event(Failure(type(error).__name__, str(error)))
        _print(event, sys.stdout)
        raise


def _print(event: dict[str, Any], stream: Any) -> None:
    # ASCII, which every console and pipe takes.
    line = json.dumps(event, allow_nan=False)
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        # As Rich does: no method takes it for an error of its own, and `exit_status` knows it.
        raise SystemExit(1)  # noqa: B904 -- its context says why
