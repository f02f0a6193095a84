"""Requests to an OpenAI-compatible endpoint: limited in number, retried (`failures` says which), from any
thread.

One event loop in its own thread runs all requests of an endpoint. Waiting can be interrupted at any time: on
Ctrl-C, and where the caller's work is cancelled, requests in flight are cancelled, their connections closed,
and the KeyboardInterrupt or Cancelled is raised in the caller.
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
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from videopro.backbones.address import default_key_name, read_address
from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.connection import Connection, Disconnected, ErrorReply, Redirected
from videopro.backbones.server.failures import (
    FIELD_STATUSES,
    AbortedReply,
    FailureReport,
    RequestRefused,
    refuses_schema,
)
from videopro.backbones.server.replies import (
    Completion,
    InvalidReply,
    ServedReply,
    read_completion,
    read_models,
    read_reply,
    read_version,
)
from videopro.cli import check_connections, check_key
from videopro.errors import BackboneError, check_cancelled, when_cancelled

logger = logging.getLogger(__name__)

T = TypeVar("T")

Body = Callable[[], Mapping[str, Any]]
"""Builds the body of one request, when its turn comes."""

# Seconds that closing waits for connections; what does not close in time ends with the process.
_CLOSING_SECONDS = 10
# Statuses, besides 404, of servers that do not list their models.
_NO_LIST = (400, 405)
# Requests in flight to a hosted endpoint, which limits their rate.
_API_REQUESTS = 8
# Fields that some models refuse, each with the field that replaces it.
_REPLACED_FIELDS = {
    "temperature": None,
    "top_p": None,
    "max_tokens": "max_completion_tokens",
    "seed": None,
    "response_format": None,
}


class Endpoint:
    """An OpenAI-compatible endpoint.

    `config` supplies base_url, api_key_env, concurrency, timeout and retries. Tests replace waiting and
    randomness with `sleep` (takes seconds) and `uniform` (returns a number in 0..1). The key goes into the
    Authorization header, and nowhere else.
    """

    def __init__(
        self,
        config: BackboneConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        base_url = config.base_url or ""
        self.url = urlsplit(base_url.rstrip("/")).geturl()
        self._config = config
        key_env = config.api_key_env or default_key_name(base_url)
        check_connections(base_url)
        key = check_key(key_env) if key_env else ""
        self._connect = partial(Connection, base_url, key, config.timeout)
        self._failures = FailureReport(config, self.url, key, key_env, uniform)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._slots: asyncio.Semaphore | None = None
        self._pid = 0
        self._closed = False

    def complete(
        self,
        bodies: Sequence[Body],
        *,
        retry_5xx: bool = True,
        on_reply: Callable[[int, Completion], None] = lambda number, completion: None,
    ) -> list[Completion]:
        """Replies in the order of `bodies`.

        Bodies are built when their turn comes, so that at most `concurrency` of them are in memory. The first
        failure cancels the rest. With `retry_5xx` False, a 500 or 501 is not retried (some servers reply with
        it to what they do not support). `on_reply` is called with each reply as soon as it is there, in the
        endpoint's own thread; what it raises is a failure. Raises BackboneError.
        """
        return self._wait(self._complete_all(bodies, retry_5xx, on_reply))

    def models(self) -> list[dict[str, Any]]:
        """The entries of /models; empty if the server does not list its models."""
        return self._wait(self._models())

    def version(self) -> str:
        """The version that vLLM gives of itself; empty from another server, and if it does not reply."""

        async def ask() -> str:
            assert self._connection is not None
            try:
                return read_version(await self._connection.version())
            except (ErrorReply, Redirected, Disconnected, TimeoutError, InvalidReply):
                return ""

        return self._wait(ask())

    def close(self) -> None:
        """Cancel requests in flight and close the connections; calling it again does nothing."""
        with self._lock:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is None or self._pid != os.getpid():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._shut(), loop).result(timeout=_CLOSING_SECONDS)
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
            with when_cancelled(future.cancel):
                return future.result()
        except concurrent.futures.CancelledError:
            check_cancelled()
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
                # Before the loop: without a connection there is no thread, and nothing to close.
                try:
                    self._connection = self._connect()
                except Exception as error:  # of the HTTP library that this version of the client uses
                    raise BackboneError(
                        f"server {self.url}: no connection can be made ({type(error).__name__}); check its "
                        "address, and the proxies and certificates that the environment names: videopro "
                        "doctor"
                    ) from None
                loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=(loop,), name="videopro-server-backbone", daemon=True
                ).start()
                self._loop = loop
                self._pid = os.getpid()
                self._slots = asyncio.Semaphore(self._config.concurrency)
            return self._loop

    async def _shut(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()
        await asyncio.get_running_loop().shutdown_default_executor()

    # -- requests

    async def _complete_all(
        self, bodies: Sequence[Body], retry_5xx: bool, on_reply: Callable[[int, Completion], None]
    ) -> list[Completion]:
        async def complete(number: int, body: Body) -> Completion:
            completion = await self._complete(body, retry_5xx)
            on_reply(number, completion)
            return completion

        tasks = [asyncio.ensure_future(complete(number, body)) for number, body in enumerate(bodies)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _complete(self, body: Body, retry_5xx: bool) -> Completion:
        assert self._slots is not None
        async with self._slots:
            # In a thread: encoding images takes CPU time, while other requests' replies are read.
            model, content = await asyncio.to_thread(_encoded, body)

            async def request() -> Completion:
                assert self._connection is not None
                reply = await self._connection.post_chat(content)
                # In a thread: parsing a long list of log-probabilities takes CPU time.
                completion = await asyncio.to_thread(read_completion, reply)
                if completion.is_aborted:
                    raise AbortedReply(completion)
                return completion

            try:
                return await self._retry(request, retry_5xx)
            except AbortedReply as error:
                # It may be the server's answer to this one request, which `replies` tells of.
                return error.completion
            except ErrorReply as error:
                raise await self._describe_404(model, error) from None

    async def _models(self) -> list[dict[str, Any]]:
        async def request() -> list[dict[str, Any]]:
            assert self._connection is not None
            body = await self._connection.list_models()
            return [] if body is None else read_models(body)

        try:
            return await self._retry(request, True)
        except ErrorReply:
            return []
        except RequestRefused as refused:
            if refused.status in _NO_LIST:
                return []
            raise

    async def _retry(self, request: Callable[[], Awaitable[T]], retry_5xx: bool) -> T:
        """The reply of `request`, retried as `failures` says. The caller handles `ErrorReply`s of status 404,
        and the last `AbortedReply`."""
        for attempt in range(self._config.retries + 1):
            try:
                return await asyncio.wait_for(request(), self._config.timeout)
            except (TimeoutError, ErrorReply, AbortedReply, Redirected, Disconnected, InvalidReply) as error:
                if isinstance(error, ErrorReply) and error.status == 404:
                    raise
                if isinstance(error, AbortedReply) and attempt == self._config.retries:
                    raise
                failure, delay = self._failures.classify(error, attempt, retry_5xx=retry_5xx)
            if delay is None or attempt == self._config.retries:
                raise failure
            logger.warning("%s; retrying in %.1f s", failure, delay)
            await self._sleep(delay)
        raise AssertionError("unreachable")

    async def _describe_404(self, model: str, error: ErrorReply) -> RequestRefused:
        try:
            offered = [str(card.get("id")) for card in await self._models()]
        except BackboneError:
            offered = []
        return self._failures.describe_404(model, error, offered)


def _encoded(body: Body) -> tuple[str, bytes]:
    """The model that a request is for, and its body."""
    fields = dict(body())
    # Keys of a user's own fields may be numbers, such as the tokens of logit_bias.
    return str(fields["model"]), orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


# ---- endpoints whose model may refuse some fields ----------------------------------------------------------


def api_config(spec: str, where: str, **settings: Any) -> BackboneConfig:
    """The config for `api:MODEL@URL`. Raises ConfigError, which begins with `where`, for an invalid spec."""
    model, url = read_address(spec, where)
    settings = {"concurrency": _API_REQUESTS, **settings}
    return BackboneConfig(model=model, kind="server", base_url=url, **settings)


class ChatClient:
    """Chat requests without log-probabilities, which endpoints of reasoning models do not return. The fields
    that the server refuses are left out, from the first refusal on. Thread-safe.

    `sleep` and `uniform` replace the wait and the jitter between retries in tests.
    """

    def __init__(
        self,
        config: BackboneConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._endpoint = Endpoint(config, sleep=sleep, uniform=uniform)
        self._refused: set[str] = set()
        """Fields that the server refuses."""

    @property
    def url(self) -> str:
        """The server's address."""
        return self._endpoint.url

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[list[Completion], frozenset[str]]:
        """The replies, and the fields that were left out. Raises BackboneError."""
        while True:
            # A copy, because another thread may find another refused field meanwhile.
            left_out = frozenset(self._refused)
            fitted = [_without(body, left_out) for body in bodies]
            try:
                return self._endpoint.complete([partial(dict, body) for body in fitted]), left_out
            except RequestRefused as refused:
                field = _refused_field(refused, fitted[0], left_out)
                if field is None:
                    raise
                self._refused.add(field)

    def reply(
        self, messages: Sequence[Mapping[str, Any]], limit: int, fields: Mapping[str, Any]
    ) -> tuple[ServedReply, frozenset[str]]:
        """The config's model's reply of at most `limit` tokens to a conversation, asked with further request
        fields, and those of the request's fields that were left out. Raises BackboneError."""
        body = {
            "model": self._config.adapter_model or self._config.model,
            "messages": list(messages),
            "max_tokens": limit,
            **fields,
            **self._config.extra_body,
        }
        (completion,), left_out = self.complete([body])
        return read_reply(completion, f"server {self.url}", limit), left_out & body.keys()

    def close(self) -> None:
        """Cancel requests in flight and close the connections."""
        self._endpoint.close()


def _without(body: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    """The body with refused fields replaced, or left out where nothing replaces them."""
    fitted = dict(body)
    for name in left_out & fitted.keys():
        value, replacement = fitted.pop(name), _REPLACED_FIELDS[name]
        if replacement is not None:
            fitted[replacement] = value
    return fitted


def _refused_field(refused: RequestRefused, body: Mapping[str, Any], left_out: frozenset[str]) -> str | None:
    """The field that a refusal names, if it is one that can still be left out."""
    if refused.status not in FIELD_STATUSES:
        return None
    if "response_format" in body and refuses_schema(refused):
        return "response_format"
    message = str(refused)
    named = [name for name in _REPLACED_FIELDS if name in message and name in body and name not in left_out]
    return named[0] if named else None
