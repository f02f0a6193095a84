"""The server's application, with the web page, and its process.

Players and images in a browser cannot send a key, so a session cookie replaces it.
"""

from __future__ import annotations

import mimetypes
import resource
import socket
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from videopro import __version__
from videopro.errors import ConfigError, RunError, cannot_write
from videopro.report.pages import read_asset
from videopro.serve import chat, file_routes, question_routes
from videopro.serve.answering import Answerer
from videopro.serve.guards import COOKIE, Guard, ServeLimits, session_of
from videopro.serve.problems import Problem
from videopro.serve.state import ServerState, state_of
from videopro.storage import sole_writer

router = APIRouter()

_PAGE = "page.html"
_SESSION_SECONDS = 30 * 86_400


@router.get("/")
async def page() -> Response:
    """The web page."""
    return _file(_PAGE)


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """A file of the web page."""
    return _file(name)


@router.get("/health")
async def health() -> dict[str, Any]:
    """Whether the server is up."""
    return {"status": "ok", "version": __version__}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    text = state_of(request).metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The model that answers."""
    state = state_of(request)
    answerer = state.answerer
    about = {
        "method": answerer.method,
        "sample": answerer.sample,
        "note": answerer.about(),
        "converses": answerer.converses,
        "largest_video": state.limits.video_bytes,
    }
    model = {"id": answerer.name, "object": "model", "created": 0, "owned_by": "videopro"}
    return {"object": "list", "data": [{**model, "videopro": about}]}


@router.post("/v1/videopro/session", status_code=204)
async def begin_session(request: Request) -> Response:
    """Set a read-only session cookie for the key of this request, for players and images in a browser."""
    reply = Response(status_code=204)
    if state_of(request).limits.keys:
        key = request.headers.get("authorization", "").partition(" ")[2].strip()
        reply.set_cookie(
            COOKIE,
            session_of(key),
            max_age=_SESSION_SECONDS,
            path=f"{request.scope.get('root_path', '')}/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return reply


def _file(name: str) -> Response:
    return asset_reply(name, _assets().get(name) or read_asset(name))


def asset_reply(name: str, text: str | None) -> Response:
    """The reply with a file of a page. Raises Problem if there is none."""
    if text is None:
        raise Problem(404, f"no such file: {name[:60]!r}", code="no_route")
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    # A new version of the server has new files, under the same names.
    return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})


@cache
def _assets() -> dict[str, str]:
    folder: Any = files("videopro.serve").joinpath("assets")
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def create_app(state: ServerState, root_path: str = "") -> FastAPI:
    """The application. `root_path`: its path at a reverse proxy, such as /videos, whether the proxy strips
    that path or not."""
    # Its own pages of documentation load scripts from elsewhere.
    app = FastAPI(title="VideoPro", version=__version__, docs_url=None, redoc_url=None)
    app.state.videopro = state
    for routes in (file_routes.router, chat.router, question_routes.router, router):
        app.include_router(routes)
        for route in routes.routes:
            # Players and monitors look before they load. Events have no size and no end yet.
            if isinstance(route, APIRoute) and route.methods == {"GET"} and route.name != "events":
                app.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)
    guard(app, state.limits, state.metrics.request, root_path)
    return app


def guard(
    app: FastAPI, limits: ServeLimits, on_request: Callable[[str, int], None], root_path: str = ""
) -> None:
    """Put an application behind a `Guard`, which replies to all errors."""
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_middleware(Guard, limits=limits, on_request=on_request, root_path=root_path)


async def _refuse_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or None
    message = f"{where or 'the body'}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    raise Problem(400, message, code="invalid", param=where)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: f"no such path: {request.url.path[:100]}", 405: "this path does not support the method"}
    code = "no_route" if error.status_code in message else "invalid"
    raise Problem(error.status_code, message.get(error.status_code, str(error.detail)), code=code)


_CLOSING_SECONDS = 1
"""For replies that are being sent when the server ends."""
_IDLE_SECONDS = 5.0
_MOST_FILES = 65_536


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address and does not accept clients yet. Raises ConfigError."""
    # Each client holds a file, and many systems begin with 1,024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST_FILES)), hard))
    try:
        if not 0 <= port < 2**16:  # The resolver takes what is left of it in 16 bits.
            raise OverflowError("ports are 0 to 65535")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Of its connections too: clients that were switched off are noticed.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{host}:{port}: cannot listen ({reason}); choose another --host or --port (0: any free port)"
        ) from error
    return sock


def run(
    answerer: Answerer,
    limits: ServeLimits,
    folder: Path,
    sock: socket.socket,
    say: Callable[[str], None],
    root_path: str = "",
) -> None:
    """Serve until a signal ends the process, then stop running questions. The model must be loaded. `say`
    gets the address when the server is ready; `root_path` as in `create_app`. Raises VideoProError."""
    with sole_writer(folder):
        try:
            state = ServerState(limits, answerer, folder)
        except OSError as error:
            raise RunError(cannot_write(error.filename or folder, error, "give another --output")) from error
        try:
            app = create_app(state, root_path)
            StoppableServer(app, lambda: say(address_of(sock)), state.stop).run([sock])
        finally:
            state.stop()
            state.line.wait_until_idle(_IDLE_SECONDS)
            state.questions.close()


class StoppableServer(uvicorn.Server):
    """A server that reports when it is ready, and stops its work before its connections."""

    def __init__(self, app: ASGIApp, on_start: Callable[[], None], stop: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        super().__init__(config)
        self._on_start = on_start
        self._stop = stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the work, then the connections."""
        # On another thread: the loop must still send the last events.
        await to_thread.run_sync(self._stop)
        await super().shutdown(sockets)


def address_of(sock: socket.socket) -> str:
    """The address of a server that listens there."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
