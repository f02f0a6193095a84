"""Two clients of an endpoint that need no `Backbone`: chats without log-probabilities, for planners, agents
and judges, and replies as token ids, which training draws from vLLM.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from videopro.backbones.address import read_address
from videopro.backbones.base import BackboneConfig, Sampling
from videopro.backbones.server.endpoint import Endpoint, RequestRefused
from videopro.backbones.server.messages import NEUTRAL_SAMPLING, Messages, reply_fields, request_body
from videopro.backbones.server.replies import Completion, ServedReply, read_finish, read_reply
from videopro.errors import BackboneError

# Requests in flight to a hosted endpoint, which limits their rate.
_API_REQUESTS = 8
# Statuses with which servers refuse a field that they do not know, and what their messages then name if it is
# the schema of a reply.
_FIELD_STATUSES = (400, 422, 501)
_SCHEMA_NAMES = ("response_format", "json_schema", "guided", "structured", "schema", "grammar")
# Fields that some models refuse, each with the field that replaces it.
_REPLACED_FIELDS = {
    "temperature": None,
    "top_p": None,
    "max_tokens": "max_completion_tokens",
    "seed": None,
    "response_format": None,
}


def api_config(spec: str, where: str, **settings: Any) -> BackboneConfig:
    """The config for `api:MODEL@URL`. Raises ConfigError, which begins with `where`, for an invalid spec."""
    model, url = read_address(spec, where)
    settings = {"concurrency": _API_REQUESTS, **settings}
    return BackboneConfig(model=model, kind="server", base_url=url, **settings)


class ChatClient:
    """Chat requests without log-probabilities, which endpoints of reasoning models do not return. The fields
    that the server refuses are left out, from the first refusal on. Thread-safe."""

    def __init__(self, config: BackboneConfig) -> None:
        self._config = config
        self._endpoint = Endpoint(config)
        self._refused: set[str] = set()
        """Fields that the server rejects."""

    @property
    def url(self) -> str:
        """The server's address."""
        return self._endpoint.url

    def identity(self) -> dict[str, object]:
        """The further fields of its requests, if there are any."""
        return {"extra_body": dict(self._config.extra_body)} if self._config.extra_body else {}

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[list[Completion], frozenset[str]]:
        """The replies, and the fields that were left out. Raises BackboneError."""
        while True:
            # A copy, because another thread may find another refused field meanwhile.
            left_out = frozenset(self._refused)
            fitted = [_without({**body, **self._config.extra_body}, left_out) for body in bodies]
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
    if refused.status not in _FIELD_STATUSES:
        return None
    if "response_format" in body and refuses_schema(refused):
        return "response_format"
    message = str(refused)
    named = [name for name in _REPLACED_FIELDS if name in message and name in body and name not in left_out]
    return named[0] if named else None


def refuses_schema(refused: RequestRefused) -> bool:
    """Whether a server refused a request because of its schema (`messages.response_format`)."""
    message = str(refused).lower()
    return refused.status in _FIELD_STATUSES and any(name in message for name in _SCHEMA_NAMES)


# ---- replies as token ids ----------------------------------------------------------------------------------

# Of a logit; the lowest that vLLM takes.
_NEVER = -100.0
# Whole replies may take long, and an engine that dies is started again, for which `recover` waits.
_DRAWING: Mapping[str, Any] = {"concurrency": 256, "timeout": 1800.0, "retries": 64}


@dataclass(frozen=True)
class TokenRequest:
    """A prompt, made when it is sent, and the seed of its reply."""

    messages: Callable[[], Messages]
    seed: int


@dataclass(frozen=True)
class DrawnTokens:
    """A reply."""

    prompt: tuple[int, ...]
    """The ids of the prompt that the model saw."""
    ids: tuple[int, ...]
    """With the token that ended it, if one did."""
    logprobs: tuple[float, ...]
    """Of each of them, after temperature and top-p."""
    is_ended: bool
    """Whether the model ended it; False: the limit did."""


class TokenClient:
    """Draws replies from a vLLM. `banned` are token ids that are never drawn, `ends` those that end a reply.
    `recover` waits until a server that failed answers again, and may raise what ends the tries. Thread-safe.

    A request is a chat, whose prompt vLLM makes itself, and says of which ids. It also takes our own ids with
    a video's features (`/inference/v1/generate`), but not which of a video's tokens are features: those of
    Qwen3-VL have the times of frames among them.
    """

    def __init__(
        self,
        url: str,
        *,
        banned: Sequence[int],
        ends: Sequence[int],
        recover: Callable[[], Awaitable[None]],
    ) -> None:
        config = BackboneConfig("policy", "server", base_url=url, **_DRAWING)
        self._endpoint = Endpoint(config, recover=recover)
        self._fields = {
            **NEUTRAL_SAMPLING,
            "top_logprobs": 0,
            "return_token_ids": True,
            "chat_template_kwargs": {"enable_thinking": False},
            "stop_token_ids": list(ends),
            **({"logit_bias": {str(token): _NEVER for token in banned}} if banned else {}),
        }

    def draw(
        self,
        model: str,
        requests: Sequence[TokenRequest],
        sampling: Sampling,
        on_reply: Callable[[int, DrawnTokens], None],
    ) -> list[DrawnTokens]:
        """Replies by the model of this name. `on_reply` gets each as soon as it is written, with the index of
        its request, in another thread. Raises BackboneError."""
        server = f"server {self._endpoint.url}"

        def body(request: TokenRequest) -> dict[str, Any]:
            fields = reply_fields(sampling, request.seed, None)
            return request_body(model, request.messages(), {**fields, **self._fields})

        replies: dict[int, DrawnTokens] = {}

        def take(number: int, completion: Completion) -> None:
            replies[number] = _read_drawn(completion, server, sampling.max_new_tokens)
            on_reply(number, replies[number])

        self._endpoint.complete([partial(body, request) for request in requests], on_reply=take)
        return [replies[number] for number in range(len(requests))]

    def close(self) -> None:
        """Cancel requests in flight and close the connections."""
        self._endpoint.close()


def _read_drawn(completion: Completion, server: str, limit: int) -> DrawnTokens:
    choice = completion.choices[0]
    is_ended = read_finish(completion, server, limit) == "stop"
    tokens = None if choice.logprobs is None else choice.logprobs.content
    if completion.prompt_token_ids is None or choice.token_ids is None or tokens is None:
        raise BackboneError(
            f"{server} does not return token ids and log-probabilities; training samples from vLLM 0.31 or "
            "newer"
        )
    if len(tokens) != len(choice.token_ids):
        raise BackboneError(
            f"{server} lists {len(choice.token_ids)} token ids but {len(tokens)} log-probabilities"
        )
    return DrawnTokens(
        tuple(completion.prompt_token_ids),
        tuple(choice.token_ids),
        tuple(min(0.0, token.logprob) for token in tokens),
        is_ended,
    )
