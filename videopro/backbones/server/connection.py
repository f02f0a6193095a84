"""The connection to one server, over the `openai` package's client: where requests may go, what they carry,
how much of a reply is read.

No request leaves the server's own origin, whatever a reply says: a redirection elsewhere is an error. The
client's environment variables for OpenAI (OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS) are for
OpenAI's own address only. The client's errors stay in this file, because the server controls their text.

The client is imported where a connection is made: that takes more than a second, which commands that use no
server do not wait for.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from videopro.backbones.address import is_openai
from videopro.backbones.server.replies import InvalidReply
from videopro.cli import has_no_proxy
from videopro.storage import InvalidJson, parse_json, printable

if TYPE_CHECKING:
    import openai

# Seconds.
CONNECT_TIMEOUT = 10.0
# Maximum characters of a server's own text in an error message.
LONGEST_TEXT = 400
# Bytes; the longest reply with 20 log-probabilities per token has a few MiB.
LARGEST_BODY = 256 << 20
# Of the reply to a request that failed, at most this many bytes are read, within this many seconds.
_ERROR_BYTES = 64 << 10
_ERROR_SECONDS = 10.0
# Redirections that keep a request as it is; the others turn it into one without a body.
_SAME_REQUEST = (307, 308)
_REDIRECTIONS = (301, 302, 303, *_SAME_REQUEST)
_PORTS = {"http": 80, "https": 443}
# Headers that the client adds to every request from its environment, and those that it needs itself.
_FOR_OPENAI = ("openai-organization", "openai-project")
_NEEDED = ("host", "accept", "accept-encoding", "connection", "content-length", "content-type")

_TITLE = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
_UNSHOWN = re.compile(r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<[^>]*>")


class Disconnected(Exception):
    """No connection could be made, or it broke off; the message is the name of the underlying error."""


class Redirected(Exception):
    """The server sends the request to `target`, another origin or one that would get no body."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


class ErrorReply(Exception):
    """A reply with an error status."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, sent_bytes: int) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.sent_bytes = sent_bytes
        """Of the request's body."""
        text = body.decode("utf-8", "replace")
        self.is_page = bool(re.match(r"\s*<(?:!doctype|html|head|body)", text, re.IGNORECASE))
        """Whether it is a page for people, such as a proxy's."""
        self.message, self.code = _page_text(text) if self.is_page else text, ""
        if not self.is_page:
            with suppress(InvalidJson):
                self.message, self.code = _explanation(parse_json(body))


class Connection:
    """Sends requests to the server at `url`, with `key` ("": none).

    Requests raise Redirected, ErrorReply, Disconnected, TimeoutError, or InvalidReply for a reply that is too
    large.
    """

    def __init__(self, url: str, key: str, timeout: float) -> None:
        import openai

        seconds = openai.Timeout(timeout, connect=CONNECT_TIMEOUT)
        if has_no_proxy(url):
            # The client would also prepare the proxies for other hosts, and fail if it cannot.
            direct = ssl.create_default_context()
            http_client = openai.DefaultAsyncHttpxClient(timeout=seconds, trust_env=False, verify=direct)
        else:
            http_client = openai.DefaultAsyncHttpxClient(timeout=seconds)
        self._client = openai.AsyncOpenAI(
            base_url=url,
            # The client requires a key; a server that needs none ignores it.
            api_key=key or "none",
            timeout=seconds,
            # See docs/architecture.md for what its own retries would lose.
            max_retries=0,
            http_client=http_client,
        )
        origin = _origin(self._client.base_url)
        # A proxy with passwords wants "Basic ...".
        authorization = key if key.startswith(("Basic ", "Bearer ")) else f"Bearer {key or 'none'}"
        removed = () if is_openai(url) else (*_FOR_OPENAI, *_custom_headers())

        async def before(request: Any) -> None:
            if _origin(request.url) != origin:
                raise Redirected(_shown_origin(request.url))
            for name in removed:
                request.headers.pop(name, None)
            request.headers["Authorization"] = authorization

        # Where the client would read an error to its end, however long that is.
        async def after(response: Any) -> None:
            if response.status_code in _REDIRECTIONS and "location" in response.headers:
                if response.status_code not in _SAME_REQUEST and response.request.method == "POST":
                    raise Redirected(_shown_target(response.headers["location"]))
                return
            if not response.is_success:
                headers = dict(response.headers)
                sent_bytes = int(response.request.headers.get("content-length") or 0)
                raise ErrorReply(response.status_code, headers, await _beginning(response), sent_bytes)

        http_client.event_hooks = {"request": [before], "response": [after]}

    async def post_chat(self, content: bytes) -> bytes:
        """The reply to a chat request, whose body is JSON."""
        # Not by `chat.completions`, which would encode the body here, in the event loop.
        return await self._read(self._client.post, "/chat/completions", content=content)

    async def version(self) -> bytes:
        """vLLM's own version, as JSON, which it has beside /v1."""
        return await self._read(self._client.get, str(self._client.base_url.join("../version")))

    async def _read(self, send: Callable[..., Awaitable[Any]], path: str, **content: bytes) -> bytes:
        import openai
        from openai._constants import RAW_RESPONSE_HEADER

        # As `with_streaming_response` sets it: the reply is read here, up to LARGEST_BODY.
        headers = {"Content-Type": "application/json", RAW_RESPONSE_HEADER: "stream"}
        with _translated_errors():
            response = await send(
                path, cast_to=openai.AsyncAPIResponse[bytes], options={"headers": headers}, **content
            )
            try:
                return await _body(response)
            finally:
                await response.close()

    async def list_models(self) -> bytes | None:
        """The list of models; None for another page, such as a proxy's or a welcome."""
        with _translated_errors():
            async with self._client.models.with_streaming_response.list() as response:
                body = await _body(response)
        return body if "json" in response.headers.get("content-type", "json") else None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turns the client's errors into those of this file, and takes them out of what older clients wrap them
    in."""
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise TimeoutError from None
    except openai.OpenAIError as error:
        cause = error.__cause__
        if isinstance(cause, Redirected | ErrorReply):
            raise cause from None
        if isinstance(error, openai.APIConnectionError):
            raise Disconnected("connection error" if cause is None else type(cause).__name__) from None
        raise InvalidReply(str(error)) from None


async def _body(response: openai.AsyncAPIResponse[Any]) -> bytes:
    body = bytearray()
    try:
        async for part in response.iter_bytes():
            body += part
            if len(body) > LARGEST_BODY:
                raise InvalidReply(f"it has more than {LARGEST_BODY >> 20} MiB")
    except InvalidReply:
        raise
    except Exception as error:  # of the HTTP library that this version of the client uses
        raise Disconnected(type(error).__name__) from None
    return bytes(body)


async def _beginning(response: Any) -> bytes:
    """The beginning of a body, as far as it comes."""
    body = bytearray()
    with suppress(Exception):  # of the HTTP library that this version of the client uses
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
    return tuple(name for name in names if name and name not in (*_NEEDED, "authorization"))


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def _shown_origin(url: Any) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return printable(f"{url.scheme}://{host}" + (f":{url.port}" if url.port else ""), LONGEST_TEXT)


def _shown_target(location: str) -> str:
    """Where a redirection leads, without user, password and query."""
    return printable(re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", location)[0]), LONGEST_TEXT)


def _explanation(body: Any) -> tuple[str, str]:
    """The message and the code of an error that is JSON."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else _json_text(body), ""
    error = body.get("error", body)
    message = error.get("message") if isinstance(error, Mapping) else error
    code = error.get("code") if isinstance(error, Mapping) else ""
    return message if isinstance(message, str) else _json_text(body), code if isinstance(code, str) else ""


def _json_text(body: Any) -> str:
    try:
        return json.dumps(body, default=str)
    except (ValueError, RecursionError):
        return "an explanation that cannot be shown"


def _page_text(text: str) -> str:
    """The title of a page, or else its text."""
    title = _TITLE.search(text)
    return html.unescape(title[1] if title and title[1].strip() else _UNSHOWN.sub(" ", text))
