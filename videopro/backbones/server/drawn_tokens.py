"""Replies as token ids, with the log-probabilities that they were drawn with: what training needs of vLLM.

A request is a chat, whose prompt vLLM makes itself, and says of which ids. It also takes our own ids with a
video's features (`/inference/v1/generate`), but not which of a video's tokens are features: those of Qwen3-VL
have the times of frames among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from videopro.backbones.base import BackboneConfig, Sampling
from videopro.backbones.server.client import Endpoint
from videopro.backbones.server.messages import NEUTRAL_SAMPLING, Messages, reply_fields, request_body
from videopro.backbones.server.replies import Completion, read_finish
from videopro.errors import BackboneError

# The lowest that vLLM takes.
_NEVER = -100.0


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
    """Whether the model ended it, and not the limit."""


class TokenClient:
    """Draws replies from a vLLM. `banned` are token ids that are never drawn, `ends` those that end a reply.
    `sleep` waits between two tries, and may raise what ends them. Thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        banned: Sequence[int],
        ends: Sequence[int],
        concurrency: int = 256,
        timeout: float = 1800.0,
        retries: int = 64,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        config = BackboneConfig(
            model="policy",
            kind="server",
            base_url=url,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
        )
        self._endpoint = Endpoint(config, sleep=sleep)
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
            replies[number] = _read(completion, server, sampling.max_new_tokens)
            on_reply(number, replies[number])

        self._endpoint.complete([partial(body, request) for request in requests], on_reply=take)
        return [replies[number] for number in range(len(requests))]

    def close(self) -> None:
        """Cancel requests in flight and close the connections."""
        self._endpoint.close()


def _read(completion: Completion, server: str, limit: int) -> DrawnTokens:
    choice = completion.choices[0]
    is_ended = read_finish(completion, server, limit) == "stop"
    tokens = None if choice.logprobs is None else choice.logprobs.content
    if completion.prompt_token_ids is None or choice.token_ids is None or tokens is None:
        raise BackboneError(
            f"{server} does not say which tokens it drew and with which log-probabilities; training samples "
            "from vLLM 0.31 or newer"
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
