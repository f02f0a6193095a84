"""Who may call: a key where one is set, pages of this server alone, and names by which it is called.

A page of any web site can send requests from its visitor's browser to this machine. So a request that names
another origin is refused, and a server that listens on this machine alone is called by this machine's names
only: a site could otherwise have its own name lead here (DNS rebinding).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from videopro.errors import Cancellation
from videopro.serve.limits import ServeLimits
from videopro.serve.problems import Problem, body_of, problem_of

HANG_UP = "videopro.hang_up"
"""The key of a request's scope with the Cancellation that its client cancels by hanging up."""
TOO_LARGE = "videopro.too_large"
"""The key of a request's scope with the refusal of a body that was too large."""
COOKIE = "videopro_session"
"""Holds the key's hash for what a page shows without a script, such as a film: GET alone."""
_OPEN_PATHS = ("", "/", "/health", "/favicon.ico")
_OPEN_FOLDERS = ("/assets/",)
_UPLOADS = ("/v1/files", "/v1/uploads")
_READS = ("GET", "HEAD")


class Guard:
    """Refuses what may not be served, before anything of it is read."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ServeLimits,
        on_request: Callable[[str, int], None],
        root_path: str = "",
    ) -> None:
        """`on_request` is told the route and the status of every reply; `root_path`: below which a proxy
        serves the application."""
        self._app = app
        self._root_path = root_path
        self._limits = limits
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["root_path"] = scope.get("root_path", "") + self._root_path
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            origin = self._origin(headers)
            if scope["method"] == "OPTIONS" and origin is not None:
                await self._preflight(origin)(scope, receive, send)
                return
            scope["videopro.key"] = self._key(scope, headers)
            self._check_size(scope, headers)
        except Problem as problem:
            self._on_request("refused", problem.status)
            await _refusal(problem)(scope, receive, send)
            return
        is_begun = False

        async def guarded(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                route = getattr(scope.get("route"), "path", "none")
                self._on_request(route, message["status"])
                sent = MutableHeaders(scope=message)
                sent["X-Content-Type-Options"] = "nosniff"
                sent["Referrer-Policy"] = "no-referrer"
                sent.setdefault("Content-Security-Policy", _POLICY)
                if origin is not None:
                    sent["Access-Control-Allow-Origin"] = origin
                    sent["Vary"] = "Origin"
            await send(message)

        try:
            await self._app(scope, self._counted(scope, receive), guarded)
        except ClientDisconnect:
            return
        except Exception as error:
            # Printed here, so that the server does not print it too.
            refusal = _refusal(problem_of(error))
            if not is_begun:
                await refusal(scope, receive, guarded)

    def _check_host(self, headers: Headers) -> None:
        host = _hostname(headers.get("host", ""))
        names = self._limits.hosts
        if host in names or (not names and not self._limits.is_local) or _is_this_machine(host):
            return
        message = f"this server is not called {host[:100]!r}; its operator can allow that with --hosts"
        raise Problem(403, message, code="wrong_host")

    def _origin(self, headers: Headers) -> str | None:
        """The other site that calls, if it is allowed to; None for the server's own page and for programs."""
        origin = headers.get("origin")
        if origin is None or urlsplit(origin).netloc == headers.get("host"):
            return None
        if origin in self._limits.origins:
            return origin
        message = f"pages of {origin[:100]!r} may not call this server; its operator can allow it: --origins"
        raise Problem(403, message, code="wrong_origin")

    def _preflight(self, origin: str) -> JSONResponse:
        return JSONResponse(
            None,
            headers={
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": "GET, POST, DELETE",
                "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
                "Vary": "Origin",
            },
        )

    def _key(self, scope: Scope, headers: Headers) -> str:
        """A name for the key of a request, "" if none is needed. Raises Problem."""
        # As the router reads it, below whatever path a proxy serves it: what is open here must be no other
        # route there.
        path = get_route_path(scope)
        if not self._limits.keys or path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS):
            return ""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            for key in self._limits.keys:
                if hmac.compare_digest(key.encode(), token.strip().encode()):
                    return session_of(key)[:8]
        elif scope["method"] in _READS:
            session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
            for key in self._limits.keys:
                if hmac.compare_digest(session_of(key).encode(), session.encode()):
                    return session_of(key)[:8]
        message = (
            "this server needs a key: send it as Authorization: Bearer KEY (api_key of the openai client)"
        )
        raise Problem(401, message, code="invalid_api_key")

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        declared = headers.get("content-length", "")
        if not _is_upload(scope) and declared.isdigit() and int(declared) > self._limits.json_bytes:
            raise self._too_large()

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """The body, which may be longer than it was said to be."""
        if _is_upload(scope):
            return receive
        count = 0
        hang_up = scope[HANG_UP] = Cancellation()

        async def counted() -> Message:
            nonlocal count
            message = await receive()
            if message["type"] == "http.disconnect":
                hang_up.cancel()
            count += len(message.get("body", b""))
            if count > self._limits.json_bytes:
                scope[TOO_LARGE] = self._too_large()
                raise scope[TOO_LARGE]
            return message

        return counted

    def _too_large(self) -> Problem:
        message = f"the request is larger than {self._limits.json_bytes:,} bytes; upload films to /v1/files"
        return Problem(413, message, code="too_large")


# The page and its scripts come from here alone, and nothing that a film or a model says becomes a script.
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def _refusal(problem: Problem) -> JSONResponse:
    return JSONResponse(body_of(problem), problem.status, headers=problem.headers)


def session_of(key: str) -> str:
    """What the cookie holds for a key."""
    return hashlib.sha256(b"videopro session " + key.encode()).hexdigest()


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "POST" and get_route_path(scope).startswith(_UPLOADS)


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return bool(ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
