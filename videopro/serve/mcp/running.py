"""The two transports: stdin and stdout of this process, and HTTP."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from videopro.serve.guards import Guard
from videopro.serve.limits import ServeLimits
from videopro.serve.mcp.work import Calls
from videopro.serve.process import StoppableServer, address_of

PATH = "/mcp"


def run_stdio(server: MCPServer[Any]) -> None:
    """Serve the process at the other end of stdin and stdout until it goes. Meanwhile the SDK leads stdout
    to stderr, so that what a library or a child prints is no message of the protocol."""
    _quiet()
    anyio.run(server.run_stdio_async)


def mcp_app(server: MCPServer[Any], limits: ServeLimits) -> ASGIApp:
    """The server as an application at `PATH`, behind the same guard as the endpoint: keys, hosts, sites."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        # The guard does it, with the operator's names, and limits bodies.
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
    StoppableServer(mcp_app(server, limits), lambda: say(address_of(sock) + PATH), calls.stop_all).run([sock])


def _quiet() -> None:
    """Keep what libraries log for their own developers from stderr: the SDK shows all that reaches the root
    logger, whatever level it has there."""
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)
