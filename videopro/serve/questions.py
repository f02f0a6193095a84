"""The questions of a server, from the queue to the stored answer."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from anyio import to_thread
from cachetools import LRUCache

from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.cli import read_yaml
from videopro.errors import Cancellation, Cancelled
from videopro.methods import error_event, last_event, make_trace
from videopro.runs import AskedRun, run_key
from videopro.serve.answering import Answerer
from videopro.serve.events import LAST, Event, EventLog, RoundsSoFar
from videopro.serve.line import FairLine, Ticket
from videopro.serve.methods import AskRequest, question_of
from videopro.serve.problems import Problem, problem_of
from videopro.storage import encodable, printable, write_atomically
from videopro.traces import Cost, Failure, Result, Trace, VideoRef, read_traces

logger = logging.getLogger(__name__)

ID_PREFIX = "question-"
_INTERRUPTED = Failure("Cancelled", "the server was restarted before this question was answered; ask again")
_KEPT_TRACES = 1000
"""As many as a list of a video's questions has."""


@dataclass(frozen=True)
class StoredQuestion:
    """A question with an answer, or one that an earlier process did not finish."""

    id: str
    summary: Mapping[str, Any]
    """As a list shows it."""
    file: Path
    """The traces of its run; its prompts are next to it."""


_ANSWER = ("letter", "choice", "text", "withheld", "confidence", "notes")


def summary_of(trace: Trace, method: str) -> dict[str, Any]:
    """A question that ended, as a list shows it. `method`: the name of the method that answered it."""
    end = last_event(trace, question_of(trace.question, trace.choices))
    has_answer = trace.error is None and trace.final is not None
    is_stopped = trace.error is not None and trace.error.type == _INTERRUPTED.type
    return {
        "id": trace.question_id,
        # Its id begins with the time.
        "time": int(trace.question_id.removeprefix(ID_PREFIX)[:12], 16) / 1000,
        "question": trace.question,
        "choices": list(trace.choices),
        "file_id": trace.video.key,
        "method": method,
        "state": "answered" if trace.error is None else "stopped" if is_stopped else "failed",
        "seconds": end["cost"]["seconds"] if has_answer else None,
        "cost": end["cost"] if has_answer else None,
        "answer": {name: end[name] for name in _ANSWER} if has_answer else None,
        "error": end["error"],
    }


State = Literal["waiting", "running", "answered", "failed", "stopped"]

_KEPT_UNANSWERED = 1000
"""Questions that failed or were stopped, which no run holds, are remembered so long."""


@dataclass
class AskedQuestion:
    """A question of this process."""

    id: str
    request: AskRequest
    client: str
    method: str
    """The name of the method that answers it."""
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
    why_stopped: str = ""
    began: float | None = None
    ended: float | None = None
    """When it was answered, on the monotonic clock; None: not yet."""

    @property
    def seconds(self) -> float:
        """Seconds for which it has been answered; 0 in the queue."""
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began

    @property
    def summary(self) -> dict[str, Any]:
        """As a list shows it."""
        summary = {**summary_of(self.so_far(), self.method), "state": self.state}
        if self.state in ("waiting", "running"):
            summary["seconds"] = time.time() - self.asked_at
        if (problem := self.problem) is not None:
            kind = "Cancelled" if problem.code == "stopped" else problem.code or "Error"
            summary["error"] = {"type": kind, "message": str(problem)}
        return summary

    def so_far(self) -> Trace:
        """Its record so far. Raises QuestionError for invalid choices."""
        if self.trace is not None:
            return self.trace
        request, video = self.request, self.request.video
        text, choices = encodable(request.question), tuple(map(encodable, request.choices))
        return make_trace(
            Item(self.id, video.path, video.id, question_of(text, choices)),
            replace(Result() if self.rounds is None else self.rounds.result(), cost=Cost(self.seconds)),
            VideoRef(str(video.path), video.id, video.id, video.duration),
            run_key="",
            protocol=Protocol(parser=ROBUST),
        )


class Questions:
    """Questions by id. Thread-safe. Close it in the end.

    FOLDER/answers/RUN_KEY/           a run folder for each model, method and settings: videopro view opens it
    FOLDER/asked/METHOD/question-ID   one that is being answered, as shown if the server dies
    """

    def __init__(
        self,
        folder: Path,
        answerer: Answerer,
        line: FairLine,
        *,
        seconds: float,
        watch: Callable[[AskedQuestion, Event], None] = lambda question, event: None,
    ) -> None:
        """`seconds`: the time limit of each. `watch` sees every event, for the metrics."""
        self._answers, self._asked = folder / "answers", folder / "asked"
        self._asked.mkdir(parents=True, exist_ok=True)
        self._answerer = answerer
        self._line = line
        self._seconds = seconds
        self._watch = watch
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while the file of a run is written: it must not be replaced between opening and writing."""
        self._pending: OrderedDict[str, AskedQuestion] = OrderedDict()
        self._stored: dict[str, StoredQuestion] = {}
        self._traces: LRUCache[str, Trace] = LRUCache(_KEPT_TRACES)
        self._runs: dict[str, AskedRun] = {}
        self._is_ending = False
        # What was asked last: a question that has its answer is not interrupted.
        runs = {
            file: read_yaml(file.with_name("config.yaml"))["method"]
            for file in self._answers.glob("*/traces.jsonl")
        }
        asked = {file: file.parent.name for file in self._asked.glob(f"*/{ID_PREFIX}*")}
        for file, method in {**runs, **asked}.items():
            for trace in read_traces(file):
                if trace.question_id not in self._stored:
                    self._remember(trace, file, method)

    def ask(self, request: AskRequest, client: str, hang_up: Cancellation | None = None) -> AskedQuestion:
        """Queue a question, and stop it if its client disconnects. Raises VideoProError if it cannot be
        answered, or the queue is full."""
        self._answerer.check(request)
        now = time.time()
        id = f"{ID_PREFIX}{int(now * 1000):012x}{uuid.uuid4().hex[:12]}"
        question = AskedQuestion(id, request, client, self._answerer.settings(request)["method"], now)
        # Until its end it counts as interrupted, should the server die.
        file = self._file_of(question)
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, replace(question.so_far(), error=_INTERRUPTED).to_line())
        with self._lock:
            self._pending[id] = question
            self._forget_old()
        try:
            question.ticket = self._line.enter(
                client,
                lambda: self._answer(question),
                lambda position: self._emit(question, {"type": "queued", "position": position}),
            )
        except Problem:
            self._file_of(question).unlink()
            with self._lock:
                del self._pending[id]
            raise
        if hang_up is not None:
            # Not on the thread that notices it: stopping closes connections, and waits for locks.
            about = (question, "the client disconnected")
            stop = threading.Thread(target=self.stop, args=about, name="stop", daemon=True)
            hang_up.on_cancel(stop.start)
        return question

    def stop(self, question: AskedQuestion, reason: str = "") -> None:
        """Stop a question that has no answer yet. `reason`: what its message adds."""
        with self._lock:
            if question.state not in ("waiting", "running"):
                return
            question.why_stopped = reason
        question.cancellation.cancel()
        # Left before its turn: nobody else ends it. One that runs ends when it meets its cancellation.
        if question.ticket is not None and self._line.leave(question.ticket):
            self._end_stopped(question)

    def stop_all(self, reason: str) -> None:
        """Stop all questions, because the server is shutting down. After a restart they ask to be asked
        again."""
        with self._lock:
            self._is_ending = True
            open_questions = [each for each in self._pending.values() if each.state in ("waiting", "running")]
        self._stop_each(open_questions, reason)

    async def delete(self, ids: Iterable[str]) -> None:
        """Delete questions with their answers, here and on the disk; those that have no answer yet are
        stopped first. Raises Problem for an unknown id, RunError."""
        questions = [self.find(id) for id in ids]
        asked = [each for each in questions if isinstance(each, AskedQuestion)]
        await to_thread.run_sync(self._stop_each, asked, "deleted")
        for question in asked:
            async for _ in question.log.follow():
                pass
        await to_thread.run_sync(self._remove, [each.id for each in questions])

    def _stop_each(self, questions: Iterable[AskedQuestion], reason: str) -> None:
        # Those that wait first: none of them begins in the place of another.
        for question in sorted(questions, key=lambda each: each.state != "waiting"):
            self.stop(question, reason)

    def _remove(self, ids: Sequence[str]) -> None:
        files = defaultdict[Path, list[str]](list)
        with self._lock:
            for stored in filter(None, map(self._stored.get, ids)):
                files[stored.file].append(stored.id)
        for file, there in files.items():
            if file.parent.parent == self._asked:
                file.unlink(missing_ok=True)
            else:
                with self._writing:
                    self._run(file.parent.name).remove(there)
        with self._lock:
            for held in (self._pending, self._stored, self._traces):
                for id in ids:
                    held.pop(id, None)

    def close(self) -> None:
        """Close the run folders. Raises RunError if an answer did not reach the disk."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.close()

    # -- reading

    def find(self, id: str) -> AskedQuestion | StoredQuestion:
        """A question. Raises Problem for an unknown id."""
        with self._lock:
            question = self._pending.get(id) or self._stored.get(id)
        if question is None:
            raise _unknown(id)
        return question

    def trace(self, question: AskedQuestion | StoredQuestion) -> Trace:
        """The record of a question so far. Raises RunError, and Problem if it was deleted."""
        if isinstance(question, AskedQuestion):
            return question.so_far()
        with self._lock:
            trace = self._traces.get(question.id)
        if trace is None:
            # Those about its video too, which a list of them reads next.
            every, file_id = read_traces(question.file), question.summary["file_id"]
            traces = {each.question_id: each for each in every if each.video.key == file_id}
            if (trace := traces.get(question.id)) is None:
                raise _unknown(question.id)  # Deleted since it was found.
            with self._lock:
                self._traces.update(traces)
        return trace

    def traces_file(self, id: str) -> Path | None:
        """The file that holds a question's trace, next to its prompts; None while it has none."""
        with self._lock:
            return self._stored[id].file if id in self._stored else None

    def list(self, file_id: str | None = None) -> list[dict[str, Any]]:
        """All questions, or those about a video, newest first."""
        with self._lock:
            every: dict[str, AskedQuestion | StoredQuestion] = {**self._pending, **self._stored}
            rows = [dict(each.summary) for each in every.values()]
        rows = [each for each in rows if file_id in (None, each["file_id"])]
        return sorted(rows, key=lambda each: float(each["time"]), reverse=True)

    # -- answering

    def _emit(self, question: AskedQuestion, event: Event) -> None:
        self._watch(question, event)
        question.log.add(event)

    def _answer(self, question: AskedQuestion) -> None:
        reason = f"the time limit is {self._seconds:g} s"
        limit = threading.Timer(self._seconds, self.stop, (question, reason))
        # A question may outlast the server; its timer must not keep the process.
        limit.daemon = True
        with self._lock:
            # It may have been stopped between its turn and here.
            if not question.cancellation.is_cancelled:
                question.state, question.began = "running", time.monotonic()
        try:
            question.cancellation.check()
            limit.start()
            # Its end is reported once it is stored: clients then read the record.
            end: list[Event] = []
            rounds = question.rounds = RoundsSoFar(
                lambda event: end.append(event) if event["type"] in LAST else self._emit(question, event)
            )
            trace = self._answerer.ask(question.request, rounds, question.cancellation, id=question.id)
            self._keep(question, trace)
            self._emit(question, *end)
            self._close(question)
        except Cancelled:
            self._end_stopped(question)
        # Whatever it was, the client waits for an end, and the line for its place.
        except BaseException as error:
            self._end(question, "failed", problem_of(error, question.id))
        finally:
            limit.cancel()

    def _keep(self, question: AskedQuestion, trace: Trace) -> None:
        """Store an answer in the run of its settings."""
        identity = self._answerer.identity(question.request)
        with self._writing:
            run = self._run(run_key(identity))
            run.open(self._answerer.settings(question.request), identity)
            run.add(trace)
        self._file_of(question).unlink(missing_ok=True)
        question.trace = trace
        with self._lock:
            self._remember(trace, run.folder.traces, question.method)
            question.state = "answered" if trace.error is None else "failed"
        if trace.error is not None:
            statuses = {"BackboneError": 502, "NativeError": 500, "UnexpectedError": 500}
            status = statuses.get(trace.error.type, 400)
            question.problem = Problem(status, trace.error.message, code=trace.error.type)

    def _run(self, key: str) -> AskedRun:
        with self._lock:
            return self._runs.setdefault(key, AskedRun(self._answers / key))

    def _remember(self, trace: Trace, file: Path, method: str) -> None:
        id = trace.question_id
        self._stored[id] = StoredQuestion(id, summary_of(trace, method), file)

    def _file_of(self, question: AskedQuestion) -> Path:
        """The file of a question until it has its answer, was stopped, or failed for its own reason."""
        return self._asked / question.method / question.id

    def _end_stopped(self, question: AskedQuestion) -> None:
        passed, place = question.seconds, ""
        if question.began is None:
            passed, place = time.time() - question.asked_at, "in the queue "
        reason = question.why_stopped and f": {question.why_stopped}"
        message = f"stopped {place}after {passed:.1f} s{reason}"
        self._end(question, "stopped", Problem(499, message, code="stopped"))

    def _end(self, question: AskedQuestion, state: State, problem: Problem) -> None:
        question.problem, question.ended = problem, time.monotonic()
        with self._lock:
            question.state = state
            is_ending = self._is_ending
        if not is_ending:
            self._file_of(question).unlink(missing_ok=True)
        kind = "Cancelled" if state == "stopped" else "Error"
        # What its models have read and written is in no result.
        cost = {"seconds": round(question.seconds, 3)}
        self._emit(question, {**error_event(Failure(kind, str(problem))), "cost": cost})
        self._close(question)

    def _close(self, question: AskedQuestion) -> None:
        level, how = logging.INFO, str(question.problem or "answered")
        if question.state == "failed":
            level, how = logging.WARNING, f"failed: {how}"
        elif question.log.all()[-1].get("is_fallback"):
            how = "answered directly, because no program gave an answer"
        passed, host = time.time() - question.asked_at, question.client.partition("@")[2] or "-"
        logger.log(level, "%s: %s (%.1f s, %s)", question.id, how, passed, host)
        question.log.close()

    def _forget_old(self) -> None:
        """Forget the oldest questions that ended; those with an answer are in their runs."""
        ended = [id for id, each in self._pending.items() if each.log.is_closed]
        for id in ended[: max(0, len(ended) - _KEPT_UNANSWERED)]:
            del self._pending[id]


def _unknown(id: str) -> Problem:
    message = f"no such question: {printable(id, 60)}; GET /v1/videopro/questions lists all"
    return Problem(404, message, code="no_question")
