"""Requests to an OpenAI-compatible endpoint: limited in number, with retries and clear errors.

One event loop in its own thread runs all requests of a backbone, from any thread. Waiting can be interrupted
at any time: on Ctrl-C, requests in flight are cancelled, their connections closed, and the KeyboardInterrupt
is raised in the caller.

Retried, with exponential back-off and jitter or after the time in Retry-After: 408, 409, 425, 429, every 5xx,
time-outs, refused and dropped connections, replies that are not chat completions. Not retried: any other 4xx,
and an exhausted quota.

The API key is sent in the Authorization header, to the server's own address (`connection`), and appears
nowhere else. Error messages and log lines are built from that address and the server's messages, with the key
and what a terminal would obey removed. They never chain the client's own exceptions, whose text the server
controls.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import openai
import orjson
from openai._constants import RAW_RESPONSE_HEADER

from videopro.backbones.address import default_key_name
from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.completion import Completion, InvalidReply, read_completion, read_models
from videopro.backbones.server.connection import WORDS, ErrorReply, Redirected, connect, own_error
from videopro.backbones.server.flags import ADAPTERS, wanted_flag, wanted_of_proxy
from videopro.cli import check_connections, check_key
from videopro.errors import BackboneError
from videopro.storage import printable

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds before the first retry; doubled for each further one.
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
# A longer Retry-After ends the retries.
LONGEST_RETRY_AFTER = 300.0
# Bytes; the longest reply with 20 log-probabilities per token has a few MiB.
LARGEST_BODY = 256 << 20
# Maximum models listed in an error message, and characters of each.
_OFFERED = 20
_LONGEST_NAME = 100

# As `with_streaming_response` sets it: the reply is read here, up to LARGEST_BODY.
_HEADERS = {"Content-Type": "application/json", RAW_RESPONSE_HEADER: "stream"}

_TRANSIENT_STATUS = {408, 409, 425, 429}


class RequestRefused(BackboneError):
    """The server answered a request with an error status; `status` is that status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _IncompleteReply(Exception):
    """A reply that broke off; the message is the name of the underlying error."""


class Endpoint:
    """An OpenAI-compatible endpoint.

    `config` supplies base_url, api_key_env, concurrency, timeout and retries. Tests replace waiting and
    randomness with `sleep` (takes seconds) and `uniform` (returns a number in 0..1).
    """

    def __init__(
        self,
        config: BackboneConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self.url = public_url(config.base_url or "")
        self._config = config
        self._key_env = config.api_key_env or default_key_name(config.base_url or "")
        check_connections(config.base_url or "")
        self._key = check_key(self._key_env) if self._key_env else ""
        self._sleep = sleep
        self._uniform = uniform
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: openai.AsyncOpenAI | None = None
        self._slots: asyncio.Semaphore | None = None
        self._pid = 0
        self._closed = False

    def complete(
        self, bodies: Sequence[Callable[[], Mapping[str, Any]]], *, retry_5xx: bool = True
    ) -> list[Completion]:
        """Replies in the order of `bodies`, each a function that builds one request's body.

        Bodies are built when their turn comes, so that at most `concurrency` of them are in memory. The first
        failure cancels the rest. With `retry_5xx` False, a 500 or 501 is not retried (some servers reply with
        it to what they do not support). Raises BackboneError.
        """
        return self._wait(self._complete_all(bodies, retry_5xx))

    def models(self) -> list[dict[str, Any]]:
        """The entries of /models; empty if the server does not list its models."""
        return self._wait(self._models())

    def close(self) -> None:
        """Cancel requests in flight and close the connections; calling it again does nothing."""
        with self._lock:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is None or self._pid != os.getpid():
            return
        # What does not close in time ends with the process.
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._shut(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)

    # -- threads

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except BackboneError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise BackboneError(f"server {self.url}: this backbone was closed during a request") from None
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise BackboneError(f"server {self.url}: this backbone was closed")
            # A forked child has none of its parent's threads and must not use its connections.
            if self._loop is None or self._pid != os.getpid():
                # Before the loop: without a client there is no thread, and nothing to close.
                self._client = self._connect()
                loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=(loop,), name="videopro-server-backbone", daemon=True
                ).start()
                self._loop = loop
                self._pid = os.getpid()
                self._slots = asyncio.Semaphore(self._config.concurrency)
            return self._loop

    def _connect(self) -> openai.AsyncOpenAI:
        try:
            return connect(self._config.base_url or "", self._key, self._config.timeout)
        except Exception as error:  # of the HTTP library that this version of the client uses
            raise BackboneError(
                f"server {self.url}: no connection can be made ({type(error).__name__}); check its address, "
                "and the proxies and certificates that the environment names: videopro doctor"
            ) from None

    async def _shut(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        await asyncio.get_running_loop().shutdown_default_executor()

    # -- requests

    async def _complete_all(
        self, bodies: Sequence[Callable[[], Mapping[str, Any]]], retry_5xx: bool
    ) -> list[Completion]:
        tasks = [asyncio.ensure_future(self._complete(body, retry_5xx)) for body in bodies]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _complete(self, body: Callable[[], Mapping[str, Any]], retry_5xx: bool) -> Completion:
        assert self._slots is not None
        async with self._slots:
            # In a thread: encoding images takes CPU time, while other requests' replies are read.
            model, content = await asyncio.to_thread(_encoded, body)

            async def request() -> Completion:
                assert self._client is not None
                # Not by `chat.completions`, which would encode the body here, in the event loop.
                response = await self._client.post(
                    "/chat/completions",
                    cast_to=openai.AsyncAPIResponse[bytes],
                    content=content,
                    options={"headers": _HEADERS},
                )
                try:
                    reply = await _body(response)
                finally:
                    await response.close()
                # In a thread: parsing a long list of log-probabilities takes CPU time.
                return await asyncio.to_thread(read_completion, reply)

            try:
                return await self._retry(request, retry_5xx)
            except ErrorReply as error:
                raise await self._not_found(model, error) from None

    async def _models(self) -> list[dict[str, Any]]:
        async def request() -> list[dict[str, Any]]:
            assert self._client is not None
            async with self._client.models.with_streaming_response.list() as response:
                body = await _body(response)
            # A proxy's or welcome page is not a list of models.
            is_json = "json" in response.headers.get("content-type", "json")
            return read_models(body) if is_json else []

        try:
            return await self._retry(request, True)
        except ErrorReply:
            return []
        except RequestRefused as refused:
            if refused.status in (400, 405):
                return []
            raise

    async def _retry(self, request: Callable[[], Awaitable[T]], retry_5xx: bool) -> T:
        """The reply of `request`, retried as the module's docstring says. The caller handles `ErrorReply`s of
        status 404."""
        for attempt in range(self._config.retries + 1):
            try:
                return await asyncio.wait_for(request(), self._config.timeout)
            except (openai.OpenAIError, TimeoutError, InvalidReply, _IncompleteReply) as caught:
                error = own_error(caught)
                if isinstance(error, ErrorReply) and error.status == 404:
                    raise error from None
                failure, delay = self._classify(error, attempt, retry_5xx)
            if delay is None or attempt == self._config.retries:
                raise failure
            logger.warning("%s; retrying in %.1f s", failure, delay)
            await self._sleep(delay)
        raise AssertionError("unreachable")

    def _classify(
        self, error: Exception, attempt: int, retry_5xx: bool
    ) -> tuple[BackboneError, float | None]:
        """The error to raise, and the seconds to wait before a retry (None: do not retry)."""
        tries = f"{attempt + 1} of {self._config.retries + 1} tries"
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**attempt) * (0.5 + 0.5 * self._uniform())
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return (
                BackboneError(
                    f"server {self.url} gave no reply within {self._config.timeout:g} s ({tries}); raise the "
                    "backbone's 'timeout', or lower its 'concurrency' or the number of frames"
                ),
                delay,
            )
        if isinstance(error, ErrorReply):
            return self._classify_status(error, tries, delay, retry_5xx)
        if isinstance(error, Redirected):
            return (
                BackboneError(
                    f"server {self.url} sends requests on to {error.target}, where nothing was sent; if you "
                    "trust that server, give its address instead"
                ),
                None,
            )
        if isinstance(error, openai.APIConnectionError | _IncompleteReply):
            cause = type(error.__cause__).__name__ if error.__cause__ is not None else "connection error"
            reason = str(error) if isinstance(error, _IncompleteReply) else cause
            return (
                BackboneError(
                    f"server {self.url} cannot be reached ({reason}, {tries}); start it (such as: vllm serve "
                    f"{self._config.model}), or fix its address"
                ),
                delay,
            )
        return (
            BackboneError(
                f"server {self.url} gave a reply that is not a chat completion ({self._scrub(str(error))}; "
                f"{tries}); is its address that of an OpenAI-compatible server, as in http://HOST:PORT/v1?"
            ),
            delay,
        )

    def _classify_status(
        self, error: ErrorReply, tries: str, delay: float, retry_5xx: bool
    ) -> tuple[BackboneError, float | None]:
        status = error.status
        words = self._words(error)
        proxy = wanted_of_proxy(status, error.is_page, error.sent)
        if status in (401, 403):
            # The server's message is left out: it may repeat parts of the key.
            if self._key:
                problem = f"refused the key in the environment variable {self._key_env}"
            elif self._key_env:
                problem = f"requires a key; put it into the environment variable {self._key_env}"
            else:
                problem = "requires a key; set the backbone's 'api_key_env' to the variable that holds it"
            return RequestRefused(f"server {self.url} {problem} (status {status})", status), None
        if status == 429:
            failure = RequestRefused(
                f"server {self.url} accepts no more requests for now ({tries}): {words}; lower the "
                "backbone's 'concurrency' or raise its 'retries'",
                status,
            )
            if error.code == "insufficient_quota":
                return failure, None
        elif status >= 500 or status in _TRANSIENT_STATUS:
            failure = RequestRefused(
                f"server {self.url} failed with status {status} ({tries}): {words}; "
                + (proxy or "see the server's own log"),
                status,
            )
            if status in (500, 501) and not retry_5xx:
                return failure, None
        else:
            fix = proxy or wanted_flag(error.words)
            return RequestRefused(
                f"server {self.url} refused the request (status {status}): {words}{fix and '; ' + fix}",
                status,
            ), None
        seconds = retry_after(error.headers)
        if seconds is None:
            return failure, delay
        if seconds > LONGEST_RETRY_AFTER:
            return failure, None
        # Jitter, so that not all requests retry at the same moment.
        return failure, seconds + FIRST_DELAY * self._uniform()

    async def _not_found(self, model: str, error: ErrorReply) -> RequestRefused:
        try:
            offered = [str(card.get("id")) for card in await self._models()]
        except BackboneError:
            offered = []
        if not offered:
            return RequestRefused(
                f"server {self.url} has no chat completions endpoint, or no model {model!r} (status 404: "
                f"{self._words(error)}); is the address right, as in http://HOST:PORT/v1?",
                404,
            )
        return RequestRefused(unknown_model(self.url, model, offered), 404)

    def _words(self, error: ErrorReply) -> str:
        return self._scrub(error.words) or "no explanation"

    def _scrub(self, words: str) -> str:
        if self._key:
            # Also where what is removed stood in the middle of it.
            words = printable(words.replace(self._key, "[key]"), LARGEST_BODY).replace(self._key, "[key]")
        return printable(words, WORDS)


def _encoded(body: Callable[[], Mapping[str, Any]]) -> tuple[str, bytes]:
    """The model that a request is for, and its body."""
    fields = dict(body())
    # Keys of a user's own fields may be numbers, such as the tokens of logit_bias.
    return str(fields["model"]), orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _body(response: openai.AsyncAPIResponse[Any]) -> bytes:
    """The body of a reply. Raises _IncompleteReply if it breaks off, InvalidReply if it is too large."""
    body = bytearray()
    try:
        async for part in response.iter_bytes():
            body += part
            if len(body) > LARGEST_BODY:
                raise InvalidReply(f"it has more than {LARGEST_BODY >> 20} MiB")
    except InvalidReply:
        raise
    except Exception as error:  # of the HTTP library that this version of the client uses
        raise _IncompleteReply(type(error).__name__) from None
    return bytes(body)


def unknown_model(url: str, model: str, offered: Sequence[str]) -> str:
    """The error message for a model that a server does not have."""
    more = f" and {len(offered) - _OFFERED} more" if len(offered) > _OFFERED else ""
    names = ", ".join(printable(name, _LONGEST_NAME) for name in offered[:_OFFERED])
    return f"server {url} has no model {model!r}; it offers: {names}{more} ({ADAPTERS})"


def public_url(url: str) -> str:
    """A URL without user name, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by a reply's Retry-After (a number or a date: RFC 9110, 10.2.3), or None."""
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None
