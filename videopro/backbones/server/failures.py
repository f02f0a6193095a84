"""What the user is told of a request that failed, and whether it is sent again.

Retried, with exponential back-off and jitter or after the time in Retry-After: 408, 409, 425, 429, every 5xx,
time-outs, refused and dropped connections, replies that were broken off or are not chat completions. Not
retried: any other 4xx, and an exhausted quota.

Messages are built from the server's address and its own words, with the key and what a terminal would obey
removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.connection import (
    LARGEST_BODY,
    LONGEST_TEXT,
    Disconnected,
    ErrorReply,
    Redirected,
)
from videopro.backbones.server.replies import Completion
from videopro.errors import BackboneError
from videopro.storage import printable

# Seconds before the first retry; doubled for each further one.
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
# A longer Retry-After ends the retries.
LONGEST_RETRY_AFTER = 300.0
_TRANSIENT_STATUSES = (408, 409, 425, 429)
# Statuses with which servers refuse a field that they do not know, and what their messages then name if it is
# the schema of a reply.
FIELD_STATUSES = (400, 422, 501)
_SCHEMA_NAMES = ("response_format", "json_schema", "guided", "structured", "schema", "grammar")
# Maximum models listed in an error message, and characters of each.
_LISTED_MODELS = 20
_LONGEST_NAME = 100

# What vLLM 0.32 says when it refuses a request (`tests/live` checks it), and the flag that it was started
# without.
_FLAGS = (
    (
        r"media_io_kwargs|mm_processor_kwargs",
        "start vLLM with --trust-request-mm-kwargs, which lets a request carry the times of its frames",
    ),
    (
        r"sample logprobs of \d+, which is greater",
        "start vLLM with --max-logprobs 20, among which the letters of an answer are looked for",
    ),
    (
        r"At most \d+ (image|video)\(s\)",
        'start vLLM with --limit-mm-per-prompt \'{"video": 1, "image": N}\', where N is the backbone\'s '
        "'frames', or lower that",
    ),
    (
        r"maximum context length|greater than max_model_len|maximum model length",
        "start vLLM with a larger --max-model-len, show fewer frames (--backbone frames=N), or ask for "
        "shorter replies (max_new_tokens)",
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


class AbortedReply(Exception):
    """A reply that the server broke off, and what there is of it."""

    def __init__(self, completion: Completion) -> None:
        super().__init__("aborted")
        self.completion = completion


def refuses_schema(refused: RequestRefused) -> bool:
    """Whether a server refused a request because of its schema (`messages.response_format`)."""
    message = str(refused).lower()
    return refused.status in FIELD_STATUSES and any(name in message for name in _SCHEMA_NAMES)


class FailureReport:
    """Describes the failures of requests to one server.

    `url` is its address, which holds no secret, `key` the key that it is sent ("": none), and `key_env` the
    variable that holds it or should. `uniform` returns the jitter, a number in 0..1.
    """

    def __init__(
        self, config: BackboneConfig, url: str, key: str, key_env: str | None, uniform: Callable[[], float]
    ) -> None:
        self._config = config
        self._url = url
        self._key = key
        self._key_env = key_env
        self._uniform = uniform

    def classify(
        self, error: Exception, attempt: int, *, retry_5xx: bool
    ) -> tuple[BackboneError, float | None]:
        """The error to raise, and the seconds to wait before a retry (None: do not retry). `attempt` counts
        from 0."""
        tries = f"{attempt + 1} of {self._config.retries + 1} tries"
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**attempt) * (0.5 + 0.5 * self._uniform())
        server = f"server {self._url}"
        if isinstance(error, ErrorReply):
            return self._classify_status(error, tries, delay, retry_5xx)
        if isinstance(error, Redirected):
            message = (
                f"{server} sends requests on to {error.target}, where nothing was sent; if you trust that "
                "server, give its address instead"
            )
            return BackboneError(message), None
        if isinstance(error, TimeoutError):
            message = (
                f"{server} gave no reply within {self._config.timeout:g} s ({tries}); raise the backbone's "
                "'timeout', or lower its 'concurrency' or the number of frames"
            )
        elif isinstance(error, AbortedReply):
            message = f"{server} broke a reply off, as vLLM does when it is stopped ({tries}); see its log"
        elif isinstance(error, Disconnected):
            message = (
                f"{server} cannot be reached ({error}, {tries}); start it (such as: vllm serve "
                f"{self._config.model}), or fix its address"
            )
        else:
            message = (
                f"{server} gave a reply that is not a chat completion ({self._scrubbed(str(error))}; "
                f"{tries}); is its address that of an OpenAI-compatible server, as in http://HOST:PORT/v1?"
            )
        return BackboneError(message), delay

    def _classify_status(
        self, error: ErrorReply, tries: str, delay: float, retry_5xx: bool
    ) -> tuple[BackboneError, float | None]:
        status, message = error.status, self._message(error)
        proxy = proxy_advice(error)
        if status in (401, 403):
            # The server's message is left out: it may repeat parts of the key.
            if self._key:
                problem = f"refused the key in the environment variable {self._key_env}"
            elif self._key_env:
                problem = f"requires a key; put it into the environment variable {self._key_env}"
            else:
                problem = "requires a key; set the backbone's 'api_key_env' to the variable that holds it"
            return RequestRefused(f"server {self._url} {problem} (status {status})", status), None
        if status == 429:
            failure = RequestRefused(
                f"server {self._url} accepts no more requests for now ({tries}): {message}; lower the "
                "backbone's 'concurrency' or raise its 'retries'",
                status,
            )
            if error.code == "insufficient_quota":
                return failure, None
        elif status >= 500 or status in _TRANSIENT_STATUSES:
            failure = RequestRefused(
                f"server {self._url} failed with status {status} ({tries}): {message}; "
                + (proxy or "see the server's own log"),
                status,
            )
            if status in (500, 501) and not retry_5xx:
                return failure, None
        else:
            advice = proxy or wanted_flag(error.message)
            text = f"server {self._url} refused the request (status {status}): {message}"
            return RequestRefused(f"{text}; {advice}" if advice else text, status), None
        seconds = retry_after(error.headers)
        if seconds is None:
            return failure, delay
        if seconds > LONGEST_RETRY_AFTER:
            return failure, None
        # Jitter, so that not all requests retry at the same moment.
        return failure, seconds + FIRST_DELAY * self._uniform()

    def describe_404(self, model: str, error: ErrorReply, offered: Sequence[str]) -> RequestRefused:
        """What a chat request's status 404 means, from a server that offers these models (none: it does not
        list any)."""
        if offered:
            return RequestRefused(unknown_model(self._url, model, offered), 404)
        return RequestRefused(
            f"server {self._url} has no chat completions endpoint, or no model {model!r} (status 404: "
            f"{self._message(error)}); is the address right, as in http://HOST:PORT/v1?",
            404,
        )

    def _message(self, error: ErrorReply) -> str:
        return self._scrubbed(error.message) or "no explanation"

    def _scrubbed(self, text: str) -> str:
        if self._key:
            # Twice: what is not printable may have stood in the middle of the key.
            text = printable(text.replace(self._key, "[key]"), LARGEST_BODY).replace(self._key, "[key]")
        return printable(text, LONGEST_TEXT)


def unknown_model(url: str, model: str, offered: Sequence[str]) -> str:
    """The error message for a model that a server does not have."""
    more = f" and {len(offered) - _LISTED_MODELS} more" if len(offered) > _LISTED_MODELS else ""
    names = ", ".join(printable(name, _LONGEST_NAME) for name in offered[:_LISTED_MODELS])
    return f"server {url} has no model {model!r}; it offers: {names}{more} ({_ADAPTERS})"


def wanted_flag(message: str) -> str:
    """The flag that a refusal asks for, as "start vLLM with ..."; empty if it asks for none that is known."""
    return next((advice for pattern, advice in _FLAGS if re.search(pattern, message)), "")


def proxy_advice(error: ErrorReply) -> str:
    """What to do about an error that a proxy before the server makes, such as nginx, or that it causes; empty
    for any other."""
    if error.status == 413:
        return (
            f"the request has {error.sent_bytes / 2**20:.1f} MiB: raise the limit of the proxy before the "
            "server (nginx: client_max_body_size 64m;), or show fewer frames or pixels (--backbone frames=N "
            "pixels=N)"
        )
    if error.status in (502, 503, 504) and error.is_page:
        return (
            "this comes from a proxy before the server: see that the server itself runs, and that the proxy "
            "waits as long as a reply takes (nginx: proxy_read_timeout 600s;)"
        )
    return ""


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
