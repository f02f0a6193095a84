"""The HTTP client of one server: where its requests may go, what they carry, how much of an error is read.

No request leaves the server's own origin, whatever a reply says: a redirection elsewhere is an error. The
client's environment variables for OpenAI (OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS) are for
OpenAI's own address only. What a server says of an error is read up to a limit, and only its words are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import os
import re
import ssl
from collections.abc import Mapping
from typing import Any

import openai

from videopro.backbones.address import is_openai
from videopro.cli import has_no_proxy
from videopro.storage import InvalidJson, parse_json, printable

CONNECT_TIMEOUT = 10.0
# Maximum characters of a server's own message in an error message.
WORDS = 400
# Of the reply to a request that failed, at most this many bytes are read, within this many seconds.
_ERROR_BYTES = 64 << 10
_ERROR_SECONDS = 10.0
# Redirections that keep a request as it is; the others turn it into one without a body.
_SAME_REQUEST = (307, 308)
_REDIRECTIONS = (301, 302, 303, *_SAME_REQUEST)
_PORTS = {"http": 80, "https": 443}
# What the client adds to every request from its environment.
_FOR_OPENAI = ("openai-organization", "openai-project")
_KEPT = ("host", "accept", "accept-encoding", "connection", "content-length", "content-type", "authorization")

_TITLE = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
_UNSHOWN = re.compile(r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<[^>]*>")


class Redirected(openai.OpenAIError):
    """The server sends the request to `target`, another origin or one that would get no body."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


class ErrorReply(openai.OpenAIError):
    """A reply with an error status."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, sent: int) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.sent = sent
        """Bytes of the request's body."""
        text = body.decode("utf-8", "replace")
        self.is_page = bool(re.match(r"\s*<(?:!doctype|html|head|body)", text, re.IGNORECASE))
        """Whether it is a page for people, such as a proxy's."""
        self.words, self.code = _page(text) if self.is_page else text, ""
        if not self.is_page:
            with contextlib.suppress(InvalidJson):
                self.words, self.code = _explained(parse_json(body))


def connect(url: str, key: str, timeout: float) -> openai.AsyncOpenAI:
    """A client for the server at `url`, which is sent `key` ("": none). Its requests raise Redirected,
    ErrorReply, or one of the client's own errors."""
    patience = openai.Timeout(timeout, connect=CONNECT_TIMEOUT)
    if has_no_proxy(url):
        # The client would also prepare the proxies for other hosts, and fail if it cannot.
        direct = ssl.create_default_context()
        http_client = openai.DefaultAsyncHttpxClient(timeout=patience, trust_env=False, verify=direct)
    else:
        http_client = openai.DefaultAsyncHttpxClient(timeout=patience)
    client = openai.AsyncOpenAI(
        base_url=url,
        # The client requires a key; a server that needs none ignores it.
        api_key=key or "none",
        timeout=patience,
        max_retries=0,
        http_client=http_client,
    )
    own = _origin(client.base_url)
    # A proxy with passwords wants "Basic ...".
    authorization = key if key.startswith(("Basic ", "Bearer ")) else f"Bearer {key or 'none'}"
    foreign = () if is_openai(url) else (*_FOR_OPENAI, *_custom_headers())

    async def before(request: Any) -> None:
        if _origin(request.url) != own:
            raise Redirected(_shown_origin(request.url))
        for name in foreign:
            request.headers.pop(name, None)
        request.headers["Authorization"] = authorization

    async def after(response: Any) -> None:
        if response.status_code in _REDIRECTIONS and "location" in response.headers:
            if response.status_code not in _SAME_REQUEST and response.request.method == "POST":
                raise Redirected(_target(response.headers["location"]))
            return
        if not response.is_success:
            headers = dict(response.headers)
            sent = int(response.request.headers.get("content-length") or 0)
            raise ErrorReply(response.status_code, headers, await _beginning(response), sent)

    http_client.event_hooks = {"request": [before], "response": [after]}
    return client


def own_error(error: Exception) -> Exception:
    """An error of a request, without what older clients wrap ours in."""
    cause = error.__cause__
    return cause if isinstance(cause, Redirected | ErrorReply) else error


async def _beginning(response: Any) -> bytes:
    """The beginning of a body, as far as it comes."""
    body = bytearray()
    with contextlib.suppress(Exception):  # of the HTTP library that this version of the client uses
        async with asyncio.timeout(_ERROR_SECONDS):
            async for part in response.aiter_bytes():
                body += part
                if len(body) >= _ERROR_BYTES:
                    break
    return bytes(body[:_ERROR_BYTES])


def _custom_headers() -> tuple[str, ...]:
    """The names of the headers that the client takes from its environment."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = [line.partition(":")[0].strip().lower() for line in lines if ":" in line]
    return tuple(name for name in names if name and name not in _KEPT)


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def _shown_origin(url: Any) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return printable(f"{url.scheme}://{host}" + (f":{url.port}" if url.port else ""), WORDS)


def _target(location: str) -> str:
    """Where a redirection leads, without user, password and query."""
    return printable(re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", location)[0]), WORDS)


def _explained(body: Any) -> tuple[str, str]:
    """The message and the code of an error that is JSON."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else _dumped(body), ""
    inner = body.get("error", body)
    words = inner.get("message") if isinstance(inner, Mapping) else inner
    code = inner.get("code") if isinstance(inner, Mapping) else ""
    return words if isinstance(words, str) else _dumped(body), code if isinstance(code, str) else ""


def _dumped(body: Any) -> str:
    try:
        return json.dumps(body, default=str)
    except (ValueError, RecursionError):
        return "an explanation that cannot be shown"


def _page(text: str) -> str:
    """The title of a page, or else its text."""
    title = _TITLE.search(text)
    return html.unescape(title[1] if title and title[1].strip() else _UNSHOWN.sub(" ", text))
