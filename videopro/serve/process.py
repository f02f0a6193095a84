"""The server as a process: its socket, its one line at the start, and its end at once."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from videopro.errors import ConfigError, RunError, cannot_write
from videopro.serve.answering import Answerer
from videopro.serve.app import create_app, create_state
from videopro.serve.limits import ServeLimits
from videopro.serve.state import ServerState
from videopro.storage import sole_writer

_CLOSING_SECONDS = 1
"""For replies that are being sent when the server ends."""
_IDLE_SECONDS = 5.0
_BACKLOG = 2048
_MOST_FILES = 65_536
HEAD_SECONDS = 30.0
"""In which the head of a request must have come, or the rest of a body after its reply."""
PAUSE_SECONDS = 60.0
"""Longest pause in a body."""


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address, where nobody is served yet. Raises ConfigError."""
    # Each client holds a file, and many systems begin with 1,024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST_FILES)), hard))
    try:
        if not 0 <= port < 2**16:  # The resolver takes what is left of it in 16 bits.
            raise OverflowError("a port is 0 to 65535")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{host}:{port}: cannot listen there ({reason}); give another --host or --port (0: any free one)"
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
    """Serve with a model that is loaded until a signal ends the process; `say` is told the address when
    requests are answered; `root_path` as of `create_app`. Questions that are being answered then are stopped.
    Raises VideoProError."""
    with sole_writer(folder):
        try:
            state = create_state(limits, answerer, folder)
        except OSError as error:
            raise RunError(cannot_write(error.filename or folder, error, "give another --output")) from error
        try:
            Server(state, lambda: say(address_of(sock)), root_path).run([sock])
        finally:
            _stop(state)
            state.line.wait_until_idle(_IDLE_SECONDS)
            state.questions.close()


def _stop(state: ServerState) -> None:
    state.questions.stop_all("stopped, because the server ends")
    state.indexing.stop_all()


class StoppableServer(uvicorn.Server):
    """A server that says when it answers, and that stops its work first: streams end with it."""

    def __init__(self, app: ASGIApp, on_start: Callable[[], None], stop: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            backlog=_BACKLOG,
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


class Server(StoppableServer):
    """The server of questions; `root_path` as of `create_app`."""

    def __init__(self, state: ServerState, on_start: Callable[[], None], root_path: str = "") -> None:
        super().__init__(create_app(state, root_path), on_start, lambda: _stop(state))


class ImpatientProtocol(H11Protocol):
    """HTTP whose clients must go on: a connection of one that does not send what is due is closed."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is due."""
        super().connection_made(transport)
        self._expect(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due."""
        self._expect(None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The next head is due, or the rest of a body that nobody waits for."""
        self._expect(HEAD_SECONDS)
        super().on_response_complete()

    def handle_events(self) -> None:
        """Something came, which may have begun a request."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect(PAUSE_SECONDS if self.cycle.more_body else None)

    def _expect(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self.flow.read_paused:  # It is we who are slow.
            self._expect(PAUSE_SECONDS)
        else:
            self.transport.abort()


def address_of(sock: socket.socket) -> str:
    """The address of a server that listens there."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
