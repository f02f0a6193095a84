"""The questions of a server: those that wait or are being answered, and those that are answered, which stay
after a restart.

    FOLDER/answers/RUN_KEY/      a run folder for each model, method and settings: videopro view opens it
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cachetools import LRUCache

from videopro.errors import Cancellation, Cancelled, RunError
from videopro.methods import answer_event
from videopro.question import Question
from videopro.runs import AskedRun, run_key
from videopro.serve.answering import Answerer, AskRequest
from videopro.serve.events import Event, EventLog
from videopro.serve.line import FairLine, Ticket
from videopro.serve.problems import Problem, problem_of
from videopro.serve.rounds import RoundsSoFar
from videopro.storage import printable
from videopro.traces import Failure, Result, Trace

State = Literal["waiting", "running", "answered", "failed", "stopped"]

_PREFIX = "question-"
_KEPT_TRACES = 256
_KEPT_UNANSWERED = 1000
"""Questions that failed or were stopped, which no run holds, are remembered so long."""
STOPPED = "stopped"
HUNG_UP = "stopped, because the client hung up"


@dataclass
class AskedQuestion:
    """A question of this process."""

    id: str
    request: AskRequest
    client: str
    asked_at: float
    """Seconds since 1970."""
    log: EventLog = field(default_factory=EventLog)
    cancellation: Cancellation = field(default_factory=Cancellation)
    ticket: Ticket | None = None
    state: State = "waiting"
    rounds: RoundsSoFar | None = None
    trace: Trace | None = None
    problem: Problem | None = None
    """Why there is no answer."""
    why_stopped: str = STOPPED


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question in a run folder."""

    id: str
    asked_at: float
    summary: Mapping[str, Any]
    folder: Path


Watch = Callable[[AskedQuestion, Event], None]


class Questions:
    """Questions by id. Thread-safe. Close it in the end."""

    def __init__(
        self,
        folder: Path,
        answerer: Answerer,
        line: FairLine,
        *,
        seconds: float,
        watch: Watch = lambda q, e: None,
    ) -> None:
        """`seconds`: the time limit of each. `watch` sees every event, for the metrics."""
        self._folder = folder / "answers"
        self._answerer = answerer
        self._line = line
        self._seconds = seconds
        self._watch = watch
        self._lock = threading.Lock()
        self._runs: dict[str, AskedRun] = {}
        self._asked: OrderedDict[str, AskedQuestion] = OrderedDict()
        self._traces: LRUCache[str, Trace] = LRUCache(_KEPT_TRACES)
        self._answered: dict[str, AnsweredQuestion] = {}
        for run in sorted(self._folder.glob("*/traces.jsonl")):
            for trace in AskedRun(run.parent).read():
                self._remember(trace, run.parent)

    def ask(
        self, request: AskRequest, client: str, cancellation: Cancellation | None = None
    ) -> AskedQuestion:
        """Put a question in line. Raises VideoProError if it cannot be answered, or too many wait."""
        self._answerer.check(request)
        now = time.time()
        id = f"{_PREFIX}{int(now * 1000):012x}{uuid.uuid4().hex[:12]}"
        stop = Cancellation() if cancellation is None else cancellation
        question = AskedQuestion(id, request, client, now, cancellation=stop)
        with self._lock:
            self._asked[question.id] = question
            self._forget_old()
        try:
            question.ticket = self._line.enter(
                client, lambda: self._answer(question), lambda place: self._queued(question, place)
            )
        except Problem:
            with self._lock:
                del self._asked[question.id]
            raise
        return question

    def stop(self, question: AskedQuestion, why: str = STOPPED) -> None:
        """Stop a question, if it has no answer yet."""
        with self._lock:
            if question.state not in ("waiting", "running"):
                return
            question.why_stopped = why
        question.cancellation.cancel()
        if question.ticket is not None and self._line.leave(question.ticket):
            self._end_stopped(question)

    def stop_all(self, why: str) -> None:
        """Stop all questions: the server ends."""
        with self._lock:
            open_questions = [each for each in self._asked.values() if each.state in ("waiting", "running")]
        # Those that wait first: none of them begins in the place of another.
        for question in sorted(open_questions, key=lambda each: each.state != "waiting"):
            self.stop(question, why)

    def about(self, film_id: str) -> bool:
        """Whether a question about a film waits or is being answered."""
        with self._lock:
            return any(
                each.request.film.id == film_id and each.state in ("waiting", "running")
                for each in self._asked.values()
            )

    def close(self) -> None:
        """Close the run folders. Raises RunError if an answer did not reach the disk."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.close()

    # -- reading

    def find(self, id: str) -> AskedQuestion | AnsweredQuestion:
        """A question. Raises Problem for an unknown id."""
        with self._lock:
            question = self._asked.get(id) or self._answered.get(id)
        if question is None:
            message = (
                f"there is no question {printable(id, 60)!r} here; GET /v1/videopro/questions lists them"
            )
            raise Problem(404, message, code="no_question")
        return question

    def trace(self, question: AnsweredQuestion) -> Trace:
        """The trace of an answered question. Raises RunError."""
        with self._lock:
            trace = self._traces.get(question.id)
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
        with self._lock:
            answered = self._answered.get(id)
        return None if answered is None else answered.folder / "traces.jsonl"

    def list(self) -> list[dict[str, Any]]:
        """All questions, newest first."""
        with self._lock:
            shown = {id: {**each.summary} for id, each in self._answered.items()}
            for id, asked in self._asked.items():
                if id not in shown:
                    shown[id] = _summary_of_asked(asked)
        return sorted(shown.values(), key=lambda each: float(each["time"]), reverse=True)

    # -- answering

    def _emit(self, question: AskedQuestion, event: Event) -> None:
        self._watch(question, event)
        question.log.add(event)

    def _queued(self, question: AskedQuestion, position: int) -> None:
        self._emit(question, {"type": "queued", "position": position})

    def _answer(self, question: AskedQuestion) -> None:
        limit = threading.Timer(
            self._seconds, self.stop, (question, f"stopped after the limit of {self._seconds:g} s a question")
        )
        limit.daemon = True
        with self._lock:
            if question.cancellation.is_cancelled:
                question.state = "stopped"
            else:
                question.state = "running"
        try:
            question.cancellation.check()
            limit.start()

            def begun(rounds: RoundsSoFar) -> None:
                question.rounds = rounds

            trace = self._answerer.ask(
                question.request,
                lambda event: self._emit(question, event),
                question.cancellation,
                id=question.id,
                begun=begun,
            )
            self._keep(question, trace)
        except Cancelled:
            self._end_stopped(question)
        except BaseException as error:
            self._end(question, "failed", problem_of(error))
        finally:
            limit.cancel()

    def _keep(self, question: AskedQuestion, trace: Trace) -> None:
        """Store an answer."""
        identity = self._answerer.identity(question.request)
        key = run_key(identity)
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                run = AskedRun(self._folder / key)
                run.open(self._answerer.settings(question.request), identity)
                self._runs[key] = run
        run.add(trace)
        question.trace = trace
        with self._lock:
            self._remember(trace, self._folder / key)
            question.state = "answered" if trace.error is None else "failed"
        if trace.error is not None:
            question.problem = _problem_of_failure(trace.error)
        question.log.close()

    def _remember(self, trace: Trace, folder: Path) -> None:
        summary = _summary_of_answered(trace)
        self._answered[trace.question_id] = AnsweredQuestion(
            trace.question_id, float(summary["time"]), summary, folder
        )

    def _end_stopped(self, question: AskedQuestion) -> None:
        problem = Problem(499, question.why_stopped, code="stopped")
        self._end(question, "stopped", problem)

    def _end(self, question: AskedQuestion, state: State, problem: Problem) -> None:
        question.problem = problem
        with self._lock:
            question.state = state
        kind = "Cancelled" if state == "stopped" else "Error"
        self._emit(question, error_event(kind, str(problem)))
        question.log.close()

    def _forget_old(self) -> None:
        """Forget the oldest questions that ended; those with an answer are in their runs."""
        ended = [id for id, each in self._asked.items() if each.log.is_closed]
        for id in ended[: max(0, len(ended) - _KEPT_UNANSWERED)]:
            del self._asked[id]


def error_event(kind: str, message: str) -> Event:
    """The last event of a question without an answer."""
    result = Result(error=Failure(kind, message))
    return answer_event(result, Question.open("?"))


def _problem_of_failure(error: Failure) -> Problem:
    status = {"BackboneError": 502, "NativeError": 500, "UnexpectedError": 500}.get(error.type, 400)
    kind = "invalid_request_error" if status == 400 else "server_error"
    return Problem(status, error.message, code=error.type, kind=kind)


def time_of(id: str) -> float:
    """When a question was asked, in seconds since 1970, by its id; 0 for an id of another form."""
    try:
        return int(id.removeprefix(_PREFIX)[:12], 16) / 1000
    except ValueError:
        return 0.0


def _summary_of_asked(question: AskedQuestion) -> dict[str, Any]:
    request = question.request
    return {
        "id": question.id,
        "time": question.asked_at,
        "question": request.question,
        "choices": list(request.choices),
        "film": request.film.id,
        "state": question.state,
        "answer": None,
    }


def _summary_of_answered(trace: Trace) -> dict[str, Any]:
    final = trace.final
    letter = None if final is None else final.letter
    choices = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", trace.choices, strict=False))
    return {
        "id": trace.question_id,
        "time": time_of(trace.question_id),
        "question": trace.question,
        "choices": list(trace.choices),
        "film": trace.video.key,
        "state": "answered" if trace.error is None else "failed",
        "answer": None
        if final is None
        else {
            "letter": letter,
            "choice": None if letter is None else choices.get(letter),
            "text": final.raw,
            "confidence": final.confidence,
        },
    }
