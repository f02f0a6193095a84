"""What Prometheus reads at /metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from videopro.serve.events import Event
from videopro.serve.films import FilmStore
from videopro.serve.line import FairLine

if TYPE_CHECKING:
    from videopro.serve.questions import AskedQuestion

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_STEPS = ("reply", "call", "step", "execution")
_LAST = ("answer", "error")


class Metrics:
    """The counters of one server. Thread-safe."""

    def __init__(self, line: FairLine, films: FilmStore) -> None:
        self._registry = CollectorRegistry()
        self._questions = Counter(
            "videopro_questions", "Questions that ended", ["outcome"], registry=self._registry
        )
        self._first = Histogram(
            "videopro_first_step_seconds",
            "From a question to its first step",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._total = Histogram(
            "videopro_answer_seconds",
            "From a question to its answer",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter("videopro_tokens", "Tokens of models", ["kind"], registry=self._registry)
        self._frames = Counter("videopro_frames", "Decoded frames", registry=self._registry)
        self._requests = Counter(
            "videopro_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        running = Gauge("videopro_questions_running", "Questions being answered", registry=self._registry)
        running.set_function(lambda: line.running)
        waiting = Gauge("videopro_questions_waiting", "Questions in line", registry=self._registry)
        waiting.set_function(lambda: line.waiting)
        stored = Gauge("videopro_films_bytes", "Size of the uploaded films", registry=self._registry)
        stored.set_function(lambda: films.size)

    def request(self, route: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()

    def event(self, question: AskedQuestion, event: Event) -> None:
        """Count what an event says, before it is in the question's log."""
        passed = time.time() - question.asked_at
        if event["type"] in _STEPS and not any(each["type"] in _STEPS for each in question.log.all()):
            self._first.observe(passed)
        if event["type"] not in _LAST:
            return
        error, cost = event["error"], event["cost"]
        is_stopped = error is not None and error["type"] == "Cancelled"
        outcome = "answered" if error is None else "stopped" if is_stopped else "failed"
        self._questions.labels(outcome).inc()
        if error is None:
            self._total.observe(passed)
        self._tokens.labels("in").inc(cost["tokens_in"])
        self._tokens.labels("out").inc(cost["tokens_out"])
        self._frames.inc(cost["frames"])

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self._registry)
