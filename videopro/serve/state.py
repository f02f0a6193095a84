"""What the routes of a server share: its parts, its counters, its clients and the names of videos."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from anyio import to_thread
from fastapi import Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from videopro.backbones import find_video
from videopro.serve.answering import Answerer, Indexing
from videopro.serve.events import LAST, Event
from videopro.serve.guards import ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.problems import Problem
from videopro.serve.questions import AskedQuestion, Questions
from videopro.serve.store import FOLDER_PREFIX, ID_PREFIX, StoredVideo, VideoStore
from videopro.storage import printable

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_STEPS = ("reply", "call", "step", "execution")


class Metrics:
    """The counters of one server. Thread-safe."""

    def __init__(self, line: FairLine, videos: VideoStore) -> None:
        self._registry = registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        times = partial(Histogram, registry=registry, buckets=_SECONDS)
        self._questions = counter("videopro_questions", "Questions that have ended", ["outcome"])
        self._first = times("videopro_first_step_seconds", "Seconds from a question to its first step")
        self._total = times("videopro_answer_seconds", "Seconds from a question to its answer")
        self._tokens = counter("videopro_tokens", "Tokens read and written by models", ["kind"])
        self._frames = counter("videopro_frames", "Decoded frames")
        self._requests = counter("videopro_requests", "Requests by route and status", ["route", "status"])
        for name, about, value in (
            ("videopro_questions_running", "Questions being answered", lambda: line.running),
            ("videopro_questions_waiting", "Questions in the queue", lambda: line.waiting),
            ("videopro_videos_bytes", "Bytes of uploaded videos", lambda: videos.size),
        ):
            Gauge(name, about, registry=registry).set_function(value)

    def request(self, route: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()

    def event(self, question: AskedQuestion, event: Event) -> None:
        """Count an event, before it is in the question's log."""
        passed = time.time() - question.asked_at
        if event["type"] in _STEPS and not any(each["type"] in _STEPS for each in question.log.all()):
            self._first.observe(passed)
        if event["type"] not in LAST:
            return
        error, cost = event["error"], event["cost"]
        is_stopped = error is not None and error["type"] == "Cancelled"
        outcome = "answered" if error is None else "stopped" if is_stopped else "failed"
        self._questions.labels(outcome).inc()
        if error is None:
            self._total.observe(passed)
        self._tokens.labels("in").inc(cost.get("tokens_in", 0))
        self._tokens.labels("out").inc(cost.get("tokens_out", 0))
        self._frames.inc(cost.get("frames", 0))

    def text(self) -> bytes:
        """The counters, in the format of Prometheus."""
        return generate_latest(self._registry)


class ServerState:
    """The parts of a server that stores its videos and answers in a folder; `state_of(request)` has those of
    a request."""

    def __init__(self, limits: ServeLimits, answerer: Answerer, folder: Path) -> None:
        """Raises VideoProError, OSError."""
        self.limits, self.answerer = limits, answerer
        self.videos = VideoStore(folder, limits.store_bytes, limits.folders)
        self.line = FairLine(limits.at_once, limits.waiting)
        self.metrics = Metrics(self.line, self.videos)
        self.questions = Questions(
            folder, answerer, self.line, seconds=limits.seconds, watch=self.metrics.event
        )
        self.indexing = Indexing(answerer)

    def stop(self) -> None:
        """Stop all work, because the server is shutting down."""
        self.questions.stop_all("the server is shutting down")
        self.indexing.stop_all()


def state_of(request: Request) -> ServerState:
    """The parts of the server that received the request."""
    state: ServerState = request.app.state.videopro
    return state


def client_of(request: Request) -> str:
    """The client that takes turns with others: a key and an address."""
    host = request.client.host if request.client is not None else ""
    return f"{request.scope.get('videopro.key', '')}@{host}"


async def video_named(state: ServerState, name: str) -> StoredVideo:
    """The video that a client names by its id, by a path in the operator's folders, or as a sample of the
    model. Raises Problem."""
    if name.startswith(ID_PREFIX):
        return state.videos.get(name)
    if name.startswith(FOLDER_PREFIX):
        return await to_thread.run_sync(state.videos.from_folder, name.removeprefix(FOLDER_PREFIX))
    own = state.answerer.own
    if own is not None and name.startswith(f"{own.name}:"):
        return await to_thread.run_sync(lambda: state.videos.at(find_video(Path(name)), name))
    message = (
        f"{printable(name, 100)!r} names no video; upload one to /v1/files and give its id, or give "
        f"{FOLDER_PREFIX}RELATIVE/PATH of the server's folders"
    )
    raise Problem(400, message, code="no_video", param="file_id")
