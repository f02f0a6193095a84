"""The two transports: stdin and stdout of this process, and HTTP."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from videopro.serve.guards import Guard
from videopro.serve.limits import ServeLimits
from videopro.serve.mcp.work import Calls

PATH = "/mcp"
_CLOSING_SECONDS = 1


def run_stdio(server: MCPServer[Any]) -> None:
    """Serve the process at the other end of stdin and stdout until it goes. Meanwhile the SDK leads stdout
    to stderr, so that what a library or a child prints is no message of the protocol."""
    _quiet()
    anyio.run(server.run_stdio_async)


def mcp_app(server: MCPServer[Any], limits: ServeLimits) -> ASGIApp:
    """The server as an application at `PATH`, behind the same guard as the endpoint: keys, hosts, sites."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=limits.json_bytes,
        # The guard does it, with the operator's names.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Guard(app, limits, lambda route, status: None)


def run_http(
    server: MCPServer[Any],
    limits: ServeLimits,
    calls: Calls,
    sock: socket.socket,
    say: Callable[[str], None],
) -> None:
    """Serve over streamable HTTP until a signal ends the process, which stops its open calls; `say` is told
    the address."""
    _quiet()
    config = uvicorn.Config(
        mcp_app(server, limits),
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_CLOSING_SECONDS,
    )
    host, port = sock.getsockname()[:2]
    address = f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"
    _Server(config, calls, lambda: say(address)).run([sock])


class _Server(uvicorn.Server):
    """A server that says when it answers, and that stops its calls before their connections."""

    def __init__(self, config: uvicorn.Config, calls: Calls, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._calls = calls
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the work, then the connections."""
        self._calls.stop_all()
        await super().shutdown(sockets)


def _quiet() -> None:
    """Keep what libraries log for their own developers from stderr: the SDK shows all that reaches the root
    logger, whatever level it has there."""
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)
