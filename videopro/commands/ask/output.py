"""What `videopro ask` does with an answer in addition to showing it: store it in a run folder (--output), or
print it as JSON, one object per line and nothing else on stdout (--json).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from videopro.backbones import Backbone
from videopro.benchmarks import Item, Protocol
from videopro.errors import Failure, RunError
from videopro.methods import (
    EventObserver,
    PreparedRun,
    QuestionFailed,
    error_event,
    last_events,
    make_trace,
    video_ref,
)
from videopro.question import Question
from videopro.runs import AskedRun, asked_identity
from videopro.traces import Result
from videopro.video import Video


@dataclass(frozen=True)
class Stored:
    """A question in a run."""

    folder: Path
    question_id: str


class Keeper:
    """The run in a folder, to which a question is added. Raises RunError for a folder of another run, if
    possible before the model is loaded."""

    def __init__(self, folder: Path) -> None:
        self._run = AskedRun(folder)
        self._run.folder.check()
        self._identity: Mapping[str, Any] = {}
        self._served: Mapping[str, str] = {}

    @property
    def recorded_method(self) -> Mapping[str, Any]:
        """The method's settings in the folder; empty in a new one."""
        return (self._run.folder.recorded_identity() or {}).get("method") or {}

    def check(self, prepared: PreparedRun, protocol: Protocol, seed: int, nearest_intact: float) -> None:
        """Compare everything but the model with the folder's run."""
        recorded, name = self.recorded_method.get("name"), prepared.method.name
        if recorded not in (None, name):
            # Before the settings, all of which would differ.
            raise RunError(
                f"{self._run.folder.path}: its questions used method {recorded!r}, not {name!r}; "
                f"set another --output, or --method {recorded}"
            )
        self._identity = asked_identity(
            protocol, method=prepared.identity, seed=seed, nearest_intact=nearest_intact
        )
        self._run.check(self._identity)

    def open(self, settings: Mapping[str, Any], backbone: Backbone) -> None:
        """Compare the model too, and make the folder if it is new."""
        self._run.open(settings, {**self._identity, "model": dict(backbone.identity())})
        self._served = backbone.versions

    def keep(self, item: Item, result: Result, video: Video, protocol: Protocol) -> Stored:
        """Add the question, even if it ended in an error."""
        # The folder may be opened from another one, or moved.
        reference = replace(video_ref(item, video), path=str(item.video.absolute()))
        trace = make_trace(item, result, reference, run_key="", protocol=protocol, served=self._served)
        try:
            added = self._run.add_numbered(trace)
        finally:
            self._run.close()
        return Stored(self._run.folder.path, added.question_id)


class JsonObserver(EventObserver):
    """Prints each event as it happens. Within its context, output of libraries goes to stderr."""

    def __init__(self) -> None:
        stream = sys.stdout
        super().__init__(lambda event: _print(event, stream))
        self._elsewhere = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        self._elsewhere.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._elsewhere.__exit__(*exc)

    def show(self, result: Result, question: Question, video: Video, stored: Stored | None) -> None:
        """Print the evidence, where it is stored, and the answer."""
        *pieces, last = last_events(result, question, video)
        for piece in pieces:
            self.emit(piece)
        if stored is not None:
            self.emit({"type": "stored", "folder": str(stored.folder), "question_id": stored.question_id})
        self.emit(last)


@contextmanager
def errors_as_json() -> Iterator[None]:
    """Print an exception of the block as the last object, then let it propagate."""
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
        # As Rich does: no method mistakes it for its own error, and `exit_status` knows it.
        raise SystemExit(1)  # noqa: B904 -- its context says why
