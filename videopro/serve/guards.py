"""Access: keys, origins, host names, and limits on requests.

Any web site can send requests to this server from its visitors' browsers. So requests from other origins are
refused, and so are host names that the operator does not list (DNS rebinding).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from videopro.errors import Cancellation, ConfigError
from videopro.serve.problems import Problem, body_of, problem_of, too_large
from videopro.storage import printable

logger = logging.getLogger(__name__)

GIB = 2**30
SUBTITLE_BYTES = 32 * 2**20
"""Largest subtitle file."""


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The limits of a server, from the settings of `videopro serve`."""

    at_once: int = 4
    """Questions answered at the same time; others wait in the queue."""
    waiting: int = 256
    """Length of the queue; more questions are refused (429)."""
    seconds: float = 1800.0
    """Time limit of a question, from its start."""
    video_bytes: int = 8 * GIB
    """Largest video."""
    store_bytes: int = 64 * GIB
    """All uploaded videos together."""
    json_bytes: int = 2**20
    """Largest body of a request without a file."""
    keys: tuple[str, ...] = ()
    """A request needs one of them; empty: no key needed."""
    hosts: tuple[str, ...] = ()
    """Host names of the server, in addition to "localhost" and IP addresses."""
    origins: tuple[str, ...] = ()
    """Other web sites whose pages can call the server; empty: only its own page."""
    folders: tuple[Path, ...] = ()
    """Folders of videos that clients can name by relative path."""

    def __post_init__(self) -> None:
        for name in ("at_once", "video_bytes", "store_bytes", "json_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.waiting < 0 or not self.seconds > 0:
            raise ConfigError(
                f"waiting is {self.waiting}, seconds is {self.seconds:g}; at least 0, and above 0"
            )
        for folder in self.folders:
            if not folder.is_dir():
                raise ConfigError(f"--folders {folder}: no such folder")


HANG_UP = "videopro.hang_up"
"""Key in a request's scope: the Cancellation that is set when its client disconnects."""
COOKIE = "videopro_session"
"""Holds a hash of the key for players and images of the page; valid for GET only."""
_OPEN_PATHS = ("", "/", "/health", "/favicon.ico")
_OPEN_FOLDERS = ("/assets/",)
_SUBTITLES = re.compile(r"/v1/files/[^/]+/subtitles")
_FORM_BYTES = 2**16
"""Room for the parts of a form other than its file."""
_READS = ("GET", "HEAD")
PAUSE_SECONDS = 60.0
"""Longest pause in a body: its bytes stay reserved."""
_HOST = re.compile(r"(?:\[([^]]+)\]|([^:@/?#\s]+))(?::[0-9]*)?")


class Guard:
    """Refuses requests without access before their body is read."""

    def __init__(
        self, app: ASGIApp, limits: ServeLimits, on_request: Callable[[str, int], None], root_path: str = ""
    ) -> None:
        """`on_request` gets the route and status of every reply; `root_path`: the application's path at a
        reverse proxy."""
        self._app = app
        self._root_path = root_path
        self._limits = limits
        self._hosts = {"localhost", *map(str.lower, limits.hosts)}
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["root_path"] = scope.get("root_path", "") + self._root_path
        headers = Headers(scope=scope)
        origin: str | None = None
        hang_up = scope[HANG_UP] = Cancellation()
        most, larger = self._limit(scope)
        count, status, is_whole, is_over = 0, 0, False, False
        reason = ""
        about, began = f"{scope['method']} {printable(scope['path'], 200)}", time.monotonic()

        async def guarded(message: Message) -> None:
            nonlocal status
            if is_over:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                self._on_request(getattr(scope.get("route"), "path", "none"), status)
                sent = MutableHeaders(scope=message)
                sent["X-Content-Type-Options"] = "nosniff"
                sent["Referrer-Policy"] = "no-referrer"
                sent["Cross-Origin-Resource-Policy"] = "same-origin"
                sent.setdefault("Content-Security-Policy", _POLICY)
                if origin is not None:
                    sent["Access-Control-Allow-Origin"] = origin
                    sent["Access-Control-Expose-Headers"] = "Mcp-Session-Id"
                    sent["Vary"] = "Origin"
            await send(message)

        async def refuse(problem: Problem) -> None:
            nonlocal reason
            reason = f": {printable(str(problem), 300)}"
            if not status:
                await JSONResponse(body_of(problem), problem.status, problem.headers)(scope, receive, guarded)

        async def counted() -> Message:
            """The body, which may be longer than it was said to be, or never end; then its client counts as
            gone."""
            nonlocal count, is_over, is_whole
            with anyio.move_on_after(None if is_whole else PAUSE_SECONDS) as pause:
                message = await receive()
            if pause.cancelled_caught:
                problem = Problem(408, f"no data for {PAUSE_SECONDS:g} seconds", code="timeout")
            else:
                problem = larger
                is_whole = not message.get("more_body", False)
                count += len(message.get("body", b""))
            if pause.cancelled_caught or count > most:
                await refuse(problem)
                is_over = True
                message = {"type": "http.disconnect"}
            if message["type"] == "http.disconnect":
                hang_up.cancel()
            return message

        try:
            self._check_host(headers)
            origin = self._origin(headers)
            if scope["method"] == "OPTIONS" and origin is not None:
                await _PREFLIGHT(scope, receive, guarded)
                return
            scope["videopro.key"] = self._key(scope, headers)
            if _declared(headers) > most:
                raise larger
            await self._app(scope, counted, guarded)
        except ClientDisconnect:
            return
        except Exception as error:
            await refuse(problem_of(error, about))
        finally:
            host = (scope.get("client") or ("-",))[0]
            passed = 1000 * (time.monotonic() - began)
            logger.info("%s: %s in %.0f ms (%s)%s", about, status or "no reply", passed, host, reason)

    def _check_host(self, headers: Headers) -> None:
        match = _HOST.fullmatch(headers.get("host", "").lower())
        host = "" if match is None else match[1] or match[2]
        # Rebinding needs a name that its owner can lead elsewhere.
        if host in self._hosts or host.endswith(".localhost") or _is_address(host):
            return
        message = f"unknown host name {host[:100]!r}; the operator can allow it with --hosts"
        raise Problem(403, message, code="wrong_host")

    def _origin(self, headers: Headers) -> str | None:
        """The other site that calls, if it is allowed to; None for the server's own page and for programs."""
        origin = headers.get("origin")
        host = headers.get("host")
        if origin in (None, f"http://{host}", f"https://{host}"):
            return None
        if origin in self._limits.origins:
            return origin
        message = (
            f"pages of {origin[:100]!r} cannot call this server; the operator can allow it with --origins"
        )
        raise Problem(403, message, code="wrong_origin")

    def _key(self, scope: Scope, headers: Headers) -> str:
        """A name for the key of a request, "" if none is needed. Raises Problem."""
        # As the router reads it, below whatever path a proxy serves it: what is open here must be no other
        # route there.
        path = get_route_path(scope)
        if not self._limits.keys or path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS):
            return ""
        kind, _, token = headers.get("authorization", "").partition(" ")
        session = ""
        if kind.lower() == "bearer":
            session = session_of(token.strip())
        elif scope["method"] in _READS:
            session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        for key in self._limits.keys:
            if hmac.compare_digest(session_of(key).encode(), session.encode()):
                return session_of(key)[:8]
        message = "this server needs a key; send Authorization: Bearer KEY (api_key of the openai client)"
        raise Problem(401, message, code="invalid_api_key")

    def _limit(self, scope: Scope) -> tuple[int, Problem]:
        """The most bytes that the body of a request may have, and the refusal of more."""
        path = get_route_path(scope)
        if scope["method"] == "POST" and path == "/v1/files":
            return self._limits.video_bytes + _FORM_BYTES, too_large(self._limits.video_bytes)
        if scope["method"] == "POST" and _SUBTITLES.fullmatch(path):
            return SUBTITLE_BYTES + _FORM_BYTES, too_large(SUBTITLE_BYTES)
        most = self._limits.json_bytes
        message = f"the request is larger than {most:,} bytes; upload videos to /v1/files"
        return most, Problem(413, message, code="too_large")


# The page and its scripts come from here alone, and nothing in a video or a reply becomes a script.
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


_PREFLIGHT = Response(
    headers={
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, Mcp-Protocol-Version, "
        "Mcp-Session-Id",
    }
)


def session_of(key: str) -> str:
    """The value of the cookie for a key."""
    return hashlib.sha256(b"videopro session " + key.encode()).hexdigest()


def _declared(headers: Headers) -> int:
    try:
        return int(headers.get("content-length", 0))
    except ValueError:
        raise Problem(400, "Content-Length must be a number of bytes", code="invalid") from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
