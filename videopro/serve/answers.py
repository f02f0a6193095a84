"""The questions of a server that stay after a restart: the answered ones, and those that it did not end.

FOLDER/answers/RUN_KEY/       a run folder for each model, method and settings: videopro view opens it
FOLDER/asked/question-ID      one that is being answered, as it will be told if the server dies
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cachetools import LRUCache

from videopro.errors import RunError
from videopro.runs import AskedRun, run_key
from videopro.storage import write_atomically
from videopro.traces import Failure, Trace, read_traces

ID_PREFIX = "question-"
_INTERRUPTED = Failure("Cancelled", "the server was restarted before this question was answered; ask again")
_KEPT_TRACES = 256


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question of an earlier process, or with an answer: it is in a run folder."""

    id: str
    asked_at: float
    summary: Mapping[str, Any]
    folder: Path


class Answers:
    """Answered questions by id. Thread-safe. Close it in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "answers"
        self._asked = folder / "asked"
        self._asked.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._runs: dict[str, AskedRun] = {}
        self._traces: LRUCache[str, Trace] = LRUCache(_KEPT_TRACES)
        self._answered: dict[str, AnsweredQuestion] = {}
        self._interrupted: dict[str, Trace] = {}
        for run in sorted(self._folder.glob("*/traces.jsonl")):
            for trace in AskedRun(run.parent).read():
                self._remember(trace, run.parent)
        for asked in sorted(self._asked.glob(f"{ID_PREFIX}*")):
            if asked.name in self._answered:  # It died between the answer and its end.
                self.end(asked.name)
            for trace in read_traces(asked) if asked.exists() else []:
                self._interrupted[trace.question_id] = trace
                self._remember(trace, self._asked)

    def begin(self, trace: Trace) -> None:
        """Store a question that has no answer yet: until its `end` it counts as interrupted. Raises
        OSError."""
        write_atomically(self._asked / trace.question_id, replace(trace, error=_INTERRUPTED).to_line())

    def end(self, id: str) -> None:
        """A question has its answer, or was stopped or failed for a reason of its own."""
        (self._asked / id).unlink(missing_ok=True)

    def keep(self, trace: Trace, settings: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
        """Store an answer in the run of its settings. Raises RunError."""
        folder = self._folder / run_key(identity)
        with self._lock:
            run = self._runs.get(folder.name)
            if run is None:
                run = AskedRun(folder)
                run.open(settings, identity)
                self._runs[folder.name] = run
        run.add(trace)
        with self._lock:
            self._remember(trace, folder)

    def get(self, id: str) -> AnsweredQuestion | None:
        """A question; None for an unknown id."""
        with self._lock:
            return self._answered.get(id)

    def trace(self, question: AnsweredQuestion) -> Trace:
        """The trace of a question. Raises RunError."""
        with self._lock:
            trace = self._interrupted.get(question.id) or self._traces.get(question.id)
        if trace is not None:
            return trace
        for trace in AskedRun(question.folder).read():
            with self._lock:
                self._traces[trace.question_id] = trace
            if trace.question_id == question.id:
                return trace
        raise RunError(f"{question.folder}: its question {question.id} is gone")

    def traces_file(self, id: str) -> Path | None:
        """The file that holds a question's trace, beside which its prompts are; None while it has none."""
        answered = self.get(id)
        return None if answered is None else answered.folder / "traces.jsonl"

    def summaries(self) -> dict[str, dict[str, Any]]:
        """What a list shows of each question."""
        with self._lock:
            return {id: {**each.summary} for id, each in self._answered.items()}

    def close(self) -> None:
        """Close the run folders. Raises RunError if an answer did not reach the disk."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.close()

    def _remember(self, trace: Trace, folder: Path) -> None:
        summary = summary_of(trace)
        self._answered[trace.question_id] = AnsweredQuestion(
            trace.question_id, float(summary["time"]), summary, folder
        )


def time_of(id: str) -> float:
    """When a question was asked, in seconds since 1970, by its id; 0 for an id of another form."""
    try:
        return int(id.removeprefix(ID_PREFIX)[:12], 16) / 1000
    except ValueError:
        return 0.0


def ended_as(trace: Trace) -> Literal["answered", "failed", "stopped"]:
    """How a question ended."""
    if trace.error is None:
        return "answered"
    return "stopped" if trace.error.type == _INTERRUPTED.type else "failed"


def summary_of(trace: Trace) -> dict[str, Any]:
    """What a list shows of a question."""
    final = trace.final
    letter = None if final is None else final.letter
    choices = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", trace.choices, strict=False))
    return {
        "id": trace.question_id,
        "time": time_of(trace.question_id),
        "question": trace.question,
        "choices": list(trace.choices),
        "film": trace.video.key,
        "state": ended_as(trace),
        "answer": None
        if final is None
        else {
            "letter": letter,
            "choice": None if letter is None else choices.get(letter),
            "text": final.raw,
            "confidence": final.confidence,
        },
    }
