"""The server as a process: its socket, its one line at the start, and its end at once."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from videopro.errors import ConfigError, RunError, cannot_write
from videopro.serve.answering import Answerer
from videopro.serve.app import create_app
from videopro.serve.guards import ServeLimits
from videopro.serve.state import ServerState
from videopro.storage import sole_writer

_CLOSING_SECONDS = 1
"""For replies that are being sent when the server ends."""
_IDLE_SECONDS = 5.0
_MOST_FILES = 65_536


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
        # Of its connections too: clients that were switched off are noticed.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
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
    """A server that says when it answers, and that stops its work first: streams end with it."""

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
