"""The server as a process: its socket, its one line at the start, and its end at once."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from anyio import to_thread

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


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address, where nobody is served yet. Raises ConfigError."""
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
        host, port = sock.getsockname()[:2]
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        try:
            Server(state, lambda: say(address), root_path).run([sock])
        finally:
            _stop(state)
            state.line.wait_until_idle(_IDLE_SECONDS)
            state.questions.close()


def _stop(state: ServerState) -> None:
    state.questions.stop_all("stopped, because the server ends")
    state.indexing.stop_all()


class Server(uvicorn.Server):
    """A server that says when it answers, and that ends its questions first: streams end with them."""

    def __init__(self, state: ServerState, on_start: Callable[[], None], root_path: str = "") -> None:
        config = uvicorn.Config(
            create_app(state, root_path),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        super().__init__(config)
        self._state = state
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the work, then the connections."""
        # On another thread: the loop must still send the last events.
        await to_thread.run_sync(_stop, self._state)
        await super().shutdown(sockets)
