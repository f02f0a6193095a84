"""What the routes of a server share: its parts, who calls, and which film a client means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from videopro.backbones import find_video
from videopro.errors import Cancellation
from videopro.serve.answering import Answerer
from videopro.serve.films import FOLDER_PREFIX, ID_PREFIX, Film, FilmStore
from videopro.serve.indexing import Indexing
from videopro.serve.limits import ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.metrics import Metrics
from videopro.serve.problems import Problem
from videopro.serve.questions import Questions
from videopro.storage import printable

_AT_ONCE = CapacityLimiter(16)


@dataclass(frozen=True)
class ServerState:
    """The parts of one server; of a request, `state_of(request)`."""

    limits: ServeLimits
    answerer: Answerer
    films: FilmStore
    line: FairLine
    questions: Questions
    indexing: Indexing
    metrics: Metrics


def state_of(request: Request) -> ServerState:
    """The parts of the server that got the request."""
    state: ServerState = request.app.state.videopro
    return state


def client_of(request: Request) -> str:
    """Who takes turns with others: a key and an address."""
    host = request.client.host if request.client is not None else ""
    return f"{request.scope.get('videopro.key', '')}@{host}"


async def film_named(state: ServerState, name: str, cancellation: Cancellation) -> Film:
    """The film that a client means, by its id, by a path in the operator's folders, or as a video of the
    model's own; reading it ends when it is cancelled. Raises Problem, and Cancelled."""
    if name.startswith(ID_PREFIX):
        return state.films.get(name)

    def find() -> Film:
        if name.startswith(FOLDER_PREFIX):
            return state.films.from_folder(name.removeprefix(FOLDER_PREFIX), cancellation.check)
        own = state.answerer.own
        if own is not None and name.startswith(f"{own.name}:"):
            return state.films.at(find_video(Path(name)), name, cancellation.check)
        message = (
            f"{printable(name, 100)!r} names no film: upload it to /v1/files and give its id, or give "
            f"{FOLDER_PREFIX}RELATIVE/PATH of the server's folders"
        )
        raise Problem(400, message, code="no_film", param="file_id")

    # Reading a long film takes long: it must not take the threads of all other requests.
    return await to_thread.run_sync(find, abandon_on_cancel=True, limiter=_AT_ONCE)
