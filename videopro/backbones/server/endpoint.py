"""Requests to an OpenAI-compatible endpoint from any thread, over the `openai` package's client, and the
error messages of failed requests.

The client asks again, as often as the config's `retries` say: after time-outs, connections that break, and
the statuses 408, 409, 429 and 5xx, with its own back-off or after the time in Retry-After. One event loop in
its own thread runs all requests, so that waiting ends at any time: on Ctrl-C, and where the caller's work is
cancelled, requests in flight are cancelled and their connections closed.

The client is imported where a connection is made: that takes more than a second, which commands that use no
server do not wait for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from videopro.backbones.address import default_key_name, is_openai
from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.messages import encode_body
from videopro.backbones.server.replies import (
    Completion,
    InvalidReply,
    read_completion,
    read_models,
    read_version,
)
from videopro.cli import check_connections, check_key, has_no_proxy
from videopro.errors import BackboneError, check_cancelled, first_of, when_cancelled
from videopro.storage import printable

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

Body = Callable[[], Mapping[str, Any]]
"""Builds the body of one request, when its turn comes."""

_CONNECT_SECONDS = 10.0
# Before a reply is asked for again that a stopping server broke off, or that was none.
_PAUSE_SECONDS = 1.0
# Bytes of a reply that is read in the event loop, within a fifth of a millisecond.
_SHORT_REPLY = 4096
# Of the client before it asks again.
_LONGEST_PAUSE = 8.0
# Seconds that closing waits for connections; what does not close in time ends with the process.
_CLOSING_SECONDS = 10
# Statuses of servers that do not list their models.
_NO_LIST = (400, 404, 405)
# Maximum characters of a server's own text in an error message, models listed in it, and characters of each.
_LONGEST_TEXT = 400
_LISTED_MODELS = 20
_LONGEST_NAME = 100

# What vLLM 0.32 says when it refuses a request (`tests/live` checks it), and the flag that it was started
# without.
_FLAGS = (
    (
        r"media_io_kwargs|mm_processor_kwargs",
        "start vLLM with --trust-request-mm-kwargs, so that requests can carry frame times",
    ),
    (
        r"sample logprobs of \d+, which is greater",
        "start vLLM with --max-logprobs 20, to read the letters of answers from them",
    ),
    (
        r"At most \d+ (image|video)\(s\)",
        'start vLLM with --limit-mm-per-prompt \'{"video": 1, "image": N}\', where N is the backbone\'s '
        "'frames', or lower 'frames'",
    ),
    (
        r"maximum context length|greater than max_model_len|maximum model length",
        "start vLLM with a larger --max-model-len, send fewer frames (--backbone frames=N), or lower "
        "max_new_tokens",
    ),
)
_ADAPTERS = (
    "vLLM serves an adapter by name with --enable-lora --max-lora-rank RANK --lora-modules NAME=FOLDER"
)


class RequestRefused(BackboneError):
    """The server answered a request with an error status; `status` is that status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Endpoint:
    """An OpenAI-compatible endpoint.

    `config` supplies base_url, api_key_env, concurrency, timeout and retries. The key goes into the
    Authorization header, and nowhere else. `recover`: awaited before a request is sent again, instead of the
    client's own back-off; it returns when the server answers, and may raise what ends the tries.
    """

    def __init__(
        self, config: BackboneConfig, *, recover: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        base_url = config.base_url or ""
        self.url = urlsplit(base_url.rstrip("/")).geturl()
        self._config = config
        self._key_env = config.api_key_env or default_key_name(base_url)
        check_connections(base_url)
        self._key = check_key(self._key_env) if self._key_env else ""
        self._recover = recover
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(config.concurrency)
        self._closed = False

    def complete(
        self,
        bodies: Sequence[Body],
        *,
        on_reply: Callable[[int, Completion], None] = lambda number, completion: None,
    ) -> list[Completion]:
        """Replies in the order of `bodies`.

        Bodies are built when their turn comes, so that at most `concurrency` of them are in memory. The first
        failure cancels the rest. `on_reply` is called with each reply as soon as it is there, in the
        endpoint's own thread; what it raises is a failure. Raises BackboneError.
        """
        return self._wait(self._complete_all(bodies, on_reply))

    def models(self) -> list[dict[str, Any]]:
        """The entries of /models; empty if the server does not list its models."""
        return self._wait(self._models())

    def version(self) -> str:
        """The version that vLLM gives of itself; empty from another server, and if it does not reply."""
        return self._wait(self._version())

    def close(self) -> None:
        """Cancel requests in flight and close the connections; calling it again does nothing."""
        with self._lock:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is None:
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
            raise BackboneError(f"server {self.url}: the backbone was closed during a request") from None
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise BackboneError(f"server {self.url}: the backbone was closed")
            if self._loop is None:
                # Before the loop: without a client there is no thread, and nothing to close.
                self._client = self._connect()
                loop = self._loop = asyncio.new_event_loop()
                name = "videopro-server-backbone"
                threading.Thread(target=_run, args=(loop,), name=name, daemon=True).start()
            return self._loop

    def _connect(self) -> openai.AsyncOpenAI:
        import openai

        seconds = openai.Timeout(self._config.timeout, connect=_CONNECT_SECONDS)
        # The HTTP library would prepare the proxies for other hosts too, and fail if it cannot.
        is_direct = has_no_proxy(self.url)
        http = openai.DefaultAsyncHttpxClient(
            timeout=seconds,
            # It would take prompts, frames and the key to another server.
            follow_redirects=False,
            trust_env=not is_direct,
            verify=ssl.create_default_context() if is_direct else True,
        )
        headers: dict[str, Any] = {}
        if not is_openai(self.url):
            # What the client takes from its environment for OpenAI.
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            names = (
                "OpenAI-Organization",
                "OpenAI-Project",
                *(line.partition(":")[0].strip() for line in lines),
            )
            headers = dict.fromkeys(filter(None, names), openai.Omit())
        # A proxy with passwords wants "Basic ...". The client needs a key; servers without one ignore it.
        is_header = self._key.startswith(("Basic ", "Bearer "))
        headers["Authorization"] = self._key if is_header else f"Bearer {self._key or 'none'}"
        return openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key or "none",
            default_headers=headers,
            max_retries=0 if self._recover else self._config.retries,
            timeout=seconds,
            http_client=http,
        )

    async def _shut(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()
        await asyncio.get_running_loop().shutdown_default_executor()

    # -- requests

    async def _complete_all(
        self, bodies: Sequence[Body], on_reply: Callable[[int, Completion], None]
    ) -> list[Completion]:
        async def complete(number: int, body: Body) -> Completion:
            async with self._slots:
                completion = await self._complete(body)
            on_reply(number, completion)
            return completion

        tasks = [asyncio.ensure_future(complete(number, body)) for number, body in enumerate(bodies)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _complete(self, body: Body) -> Completion:
        import openai

        # In threads: encoding images and parsing log-probabilities take CPU time, and other requests
        # continue.
        model, content = await asyncio.to_thread(_encoded, body)
        # The client's limit is for each piece of a reply: one that drips would never end.
        longest = (self._config.timeout + _LONGEST_PAUSE) * (self._config.retries + 1)
        for tries_left in range(self._config.retries, -1, -1):
            try:
                # Not by `chat.completions`, which would encode the body here, in the event loop.
                async with asyncio.timeout(longest):
                    reply = await self._client.post(
                        "/chat/completions",
                        cast_to=bytes,
                        content=content,
                        options={"headers": {"Content-Type": "application/json"}},
                    )
                # A short one takes less than the way to a thread.
                is_short = len(reply) < _SHORT_REPLY
                completion = (
                    read_completion(reply) if is_short else await asyncio.to_thread(read_completion, reply)
                )
            except (openai.APIError, InvalidReply, TimeoutError) as error:
                # Of other errors the client itself has asked again, unless `recover` does.
                is_passing = isinstance(error, InvalidReply) or (self._recover and _is_passing(error))
                if not (tries_left and is_passing):
                    raise await self._failure(error, model) from None
            else:
                # An aborted one may be the server's answer to this one request, which `replies` reports.
                if not completion.is_aborted or not tries_left:
                    return completion
            await (self._recover() if self._recover else asyncio.sleep(_PAUSE_SECONDS))
        raise AssertionError("unreachable")

    async def _models(self) -> list[dict[str, Any]]:
        import openai

        try:
            body = await self._client.get("/models", cast_to=bytes)
            # Else another page, such as a proxy's or a welcome.
            return read_models(body) if body.lstrip().startswith((b"{", b"[")) else []
        except openai.APIStatusError as error:
            if error.status_code in _NO_LIST:
                return []
            raise await self._failure(error) from None
        except (openai.APIError, InvalidReply) as error:
            raise await self._failure(error) from None

    async def _version(self) -> str:
        import openai

        try:
            # vLLM has it next to /v1.
            client = self._client.with_options(max_retries=0)
            return read_version(await client.get(str(client.base_url.join("../version")), cast_to=bytes))
        except (openai.APIError, InvalidReply):
            return ""

    # -- failures

    async def _failure(self, error: Exception, model: str = "") -> BackboneError:
        """The message for the user. Built from the server's address and its own words, with the key and what
        a terminal would obey removed."""
        import openai

        server = f"server {self.url}"
        if isinstance(error, openai.APIStatusError):
            return await self._refusal(error, server, model)
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return BackboneError(
                f"{server} did not reply within {self._config.timeout:g} s; raise the backbone's 'timeout', "
                "or lower its 'concurrency' or the number of frames"
            )
        if isinstance(error, openai.APIConnectionError):
            return BackboneError(
                f"{server} cannot be reached ({type(error.__cause__ or error).__name__}); start it (such as "
                f"vllm serve {self._config.model}), or fix its address"
            )
        return BackboneError(
            f"{server} returned a reply that is not a chat completion ({self._scrubbed(str(error))}); check "
            "that its address is an OpenAI-compatible endpoint, as in http://HOST:PORT/v1"
        )

    async def _refusal(self, error: openai.APIStatusError, server: str, model: str) -> RequestRefused:
        status, said = error.status_code, self._scrubbed(_explanation(error.body)) or "no explanation"
        if status in (401, 403):
            # The server's message is left out: it may repeat parts of the key.
            if self._key:
                problem = f"refused the key in the environment variable {self._key_env}"
            else:
                put = f"put it into the environment variable {self._key_env}"
                name = "set the backbone's 'api_key_env' to the variable with the key"
                problem = f"requires a key; {put if self._key_env else name}"
            text = f"{problem} (status {status})"
        elif status == 404 and model:
            with suppress(BackboneError):
                if offered := [str(card.get("id")) for card in await self._models()]:
                    return RequestRefused(unknown_model(self.url, model, offered), status)
            text = (
                f"has no chat completions endpoint, or no model {model!r} (status 404: {said}); check its "
                "address, as in http://HOST:PORT/v1"
            )
        elif status < 400:
            text = f"redirects to another address (status {status}); if you trust that one, pass it instead"
        elif status == 429:
            text = (
                f"accepts no more requests for now: {said}; lower the backbone's 'concurrency' or raise its "
                "'retries'"
            )
        elif status >= 500:
            text = f"failed with status {status}: {said}; see the server's log"
        else:
            flag = wanted_flag(said)
            text = f"refused the request (status {status}): {said}" + (f"; {flag}" if flag else "")
        return RequestRefused(f"{server} {text}", status)

    def _scrubbed(self, text: str) -> str:
        if self._key:
            # Twice: what is not printable may have stood in the middle of the key.
            text = printable(text.replace(self._key, "[key]"), len(text)).replace(self._key, "[key]")
        return printable(text, _LONGEST_TEXT)


def unknown_model(url: str, model: str, offered: Sequence[str]) -> str:
    """The error message for a model that a server does not have."""
    names = first_of([printable(name, _LONGEST_NAME) for name in offered], _LISTED_MODELS)
    return f"server {url} has no model {model!r}; it offers: {names} ({_ADAPTERS})"


def wanted_flag(message: str) -> str:
    """The flag that a refusal asks for, as "start vLLM with ..."; empty if it asks for none that is known."""
    return next((advice for pattern, advice in _FLAGS if re.search(pattern, message)), "")


def _is_passing(error: Exception) -> bool:
    """Whether a failure may be over when the server has been started again."""
    import openai

    status = getattr(error, "status_code", 0)
    return isinstance(error, openai.APIConnectionError) or status >= 500 or status in (408, 409, 429)


def _explanation(body: object) -> str:
    """The message in the body of an error, as the client read it; of a proxy's page the text."""
    if isinstance(body, Mapping):
        message = body.get("message")
        return message if isinstance(message, str) else str(dict(body))
    return re.sub(r"<[^>]*>", " ", str(body or ""))


def _encoded(body: Body) -> tuple[str, bytes]:
    """The model that a request is for, and its body."""
    fields = body()
    return str(fields["model"]), encode_body(fields)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
