"""Indexing films: once each, however many clients wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from videopro.errors import Cancellation, Cancelled, VideoProError
from videopro.serve.answering import Answerer
from videopro.serve.events import EventLog
from videopro.serve.films import Film
from videopro.serve.problems import problem_of

IndexState = Literal["none", "running", "ready"]


@dataclass
class _Job:
    log: EventLog = field(default_factory=EventLog)
    cancellation: Cancellation = field(default_factory=Cancellation)
    followers: int = 0


class Indexing:
    """The films that are being indexed. Thread-safe."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        # One film at a time: each takes the whole decoder.
        self._turn = threading.Lock()

    def state_of(self, film: Film) -> IndexState:
        """Whether a film's clips are indexed; a film that the model cannot look at never is."""
        with self._lock:
            if film.id in self._jobs:
                return "running"
        try:
            return "ready" if self._answerer.has_index(film) else "none"
        except VideoProError:
            return "none"

    def join(self, film: Film) -> tuple[EventLog, Callable[[], None]]:
        """Index a film, or wait with others for it. Returns what is told of it, and what leaves: nobody left,
        nobody works."""
        with self._lock:
            job = self._jobs.get(film.id)
            if job is None or job.cancellation.is_cancelled:
                job = self._jobs[film.id] = _Job()
                threading.Thread(target=self._work, args=(film, job), name="index", daemon=True).start()
            job.followers += 1
        has_left = threading.Event()

        def leave() -> None:
            with self._lock:
                if has_left.is_set():
                    return
                has_left.set()
                job.followers -= 1
                is_last = job.followers == 0
            if is_last:
                job.cancellation.cancel()

        return job.log, leave

    def stop_all(self) -> None:
        """Stop the work: the server ends."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancellation.cancel()

    def _work(self, film: Film, job: _Job) -> None:
        error = None
        try:
            with self._turn:
                job.cancellation.check()
                self._answerer.index(film, job.log.add, job.cancellation)
        except Cancelled:
            error = {"type": "Cancelled", "message": "stopped"}
        except BaseException as failure:
            error = {"type": type(failure).__name__, "message": str(problem_of(failure))}
        finally:
            with self._lock:
                if self._jobs.get(film.id) is job:
                    del self._jobs[film.id]
            job.log.add({"type": "indexed", "error": error})
            job.log.close()
