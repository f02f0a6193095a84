"""The server as an ASGI application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from videopro import __version__
from videopro.errors import VideoProError
from videopro.serve import chat, file_routes, page_routes, question_routes
from videopro.serve.answering import Answerer
from videopro.serve.films import FilmStore
from videopro.serve.guards import Guard
from videopro.serve.indexing import Indexing
from videopro.serve.limits import ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.metrics import Metrics
from videopro.serve.problems import Problem, body_of, problem_of
from videopro.serve.questions import Questions
from videopro.serve.state import ServerState, state_of


def create_state(limits: ServeLimits, answerer: Answerer, folder: Path) -> ServerState:
    """The parts of a server that keeps its films and answers in a folder. Raises VideoProError, OSError."""
    films = FilmStore(folder, limits.store_bytes, limits.folders)
    line = FairLine(limits.at_once, limits.waiting)
    metrics = Metrics(line, films)
    questions = Questions(folder, answerer, line, seconds=limits.seconds, watch=metrics.event)
    return ServerState(limits, answerer, films, line, questions, Indexing(answerer), metrics)


def create_app(state: ServerState, root_path: str = "") -> FastAPI:
    """The application; `root_path`: where a proxy serves it, such as /videos, whether it takes that off the
    paths of requests or leaves it."""
    # Its own pages of documentation load scripts from elsewhere.
    app = FastAPI(title="VideoPro", version=__version__, docs_url=None, redoc_url=None)
    app.state.videopro = state
    for routes in (file_routes, chat, question_routes, page_routes):
        app.include_router(routes.router)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": __version__}

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        state = state_of(request)
        answerer = state.answerer
        about = {
            "method": answerer.method,
            "sample": answerer.sample,
            "note": answerer.about(),
            "largest_film": state.limits.film_bytes,
        }
        return {
            "object": "list",
            "data": [
                {
                    "id": answerer.name,
                    "object": "model",
                    "created": 0,
                    "owned_by": "videopro",
                    "videopro": about,
                }
            ],
        }

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        text = state_of(request).metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    app.add_exception_handler(VideoProError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_middleware(Guard, limits=state.limits, on_request=state.metrics.request, root_path=root_path)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    return JSONResponse(body_of(problem), problem.status, headers=problem.headers)


async def _refuse_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or None
    message = f"{where or 'the body'}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return await _refuse(request, Problem(400, message, code="invalid", param=where))


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: f"there is no {request.url.path[:100]} here", 405: "this path takes another method"}
    code = "no_route" if error.status_code in message else "invalid"
    problem = Problem(error.status_code, message.get(error.status_code, str(error.detail)), code=code)
    return JSONResponse(body_of(problem), problem.status, headers=error.headers)
