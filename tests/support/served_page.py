"""A real server whose answers a test lets come step by step, for tests of its page.

If a test gives nothing else, it answers `refined` of the viewer's tests: two programs with their calls, about
a film whose pictures carry their numbers.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from tests.support import view_world as world
from videopro.errors import Cancellation, cancellable
from videopro.methods import EventObserver, evidence, last_event
from videopro.question import Question
from videopro.serve import AskRequest, Film, ServeLimits, ServerState, create_app
from videopro.traces import Trace, VideoRef


class StepwiseAnswerer:
    """Takes the place of `Answerer`: an answer takes as many steps as `let` allows."""

    name, method, is_concurrent = "stepwise", "videopro", False

    def __init__(self) -> None:
        self.own, self.sample = None, None
        self.asked: list[AskRequest] = []
        self._steps = threading.Semaphore(0)
        self._indexed: set[str] = set()

    def let(self, steps: int = 1000) -> None:
        """Allow more steps: of each round its beginning, its calls and its end, and the answer."""
        for _ in range(steps):
            self._steps.release()

    def _step(self, cancellation: Cancellation) -> None:
        while not self._steps.acquire(timeout=0.02):
            cancellation.check()

    def ask(
        self,
        request: AskRequest,
        observer: EventObserver,
        cancellation: Cancellation,
        *,
        id: str = "ask",
    ) -> Trace:
        self.asked.append(request)
        film = request.film
        whole = world.refined(VideoRef(str(film.path), film.id, film.id, film.duration))
        with cancellable(cancellation):
            for round in whole.rounds:
                observer.on_wait("planning")
                if round.program is not None:
                    self._step(cancellation)
                    observer.on_reply(replace(round, execution=None))
                assert round.execution is not None
                for call in round.execution.calls:
                    self._step(cancellation)
                    observer.on_call(call)
                self._step(cancellation)
                observer.on_execution(round.execution)
            self._step(cancellation)
        changed = {"question": request.question, "choices": request.choices, "gold": None, "evidence": ()}
        trace = replace(whole, question_id=id, groups={}, **changed)
        for piece in evidence(trace):
            observer.emit({"type": "evidence", **piece})
        question = Question(trace.question, trace.choices) if trace.choices else Question.open(trace.question)
        observer.emit(last_event(trace, question))
        return trace

    def about(self) -> str | None:
        return None

    def scope_problem(self, film: Film) -> str | None:
        return None

    def check(self, request: AskRequest) -> None:
        pass

    def settings(self, request: AskRequest) -> dict[str, Any]:
        return {"method": "videopro", "model": "stepwise"}

    def identity(self, request: AskRequest) -> dict[str, Any]:
        return dict(world.IDENTITY)

    def has_index(self, film: Film) -> bool:
        return film.id in self._indexed

    def index(self, film: Film, emit: Callable[[dict[str, Any]], None], cancellation: Cancellation) -> None:
        for done in range(3):
            emit({"type": "progress", "doing": "indexing", "done": done, "total": 3})
            self._step(cancellation)
        self._indexed.add(film.id)


class PageServer:
    """The server, on a port of this machine that it keeps when it is started again."""

    def __init__(self, folder: Path, answerer: StepwiseAnswerer, **limits: Any) -> None:
        self.answerer = answerer
        self._folder, self._limits = folder, ServeLimits(**limits)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._state = ServerState(self._limits, self.answerer, self._folder)  # type: ignore[arg-type]
        config = uvicorn.Config(create_app(self._state), port=self.port, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def stop(self) -> None:
        """As when it is killed: its clients are told nothing."""
        self._server.force_exit = True
        self._server.should_exit = True
        self._thread.join()
        self._state.questions.stop_all("the server ends")
        self._state.questions.close()
