"""What the routes of a server share."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from videopro.serve.answering import Answerer
from videopro.serve.films import FilmStore
from videopro.serve.indexing import Indexing
from videopro.serve.limits import ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.metrics import Metrics
from videopro.serve.questions import Questions


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
