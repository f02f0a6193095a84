"""The fields of a chat request beside its messages: what every call sets itself, and what sampling, a schema
and the engine add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from videopro.backbones.base import Sampling
from videopro.backbones.server.messages import CONTINUES, Messages, response_format
from videopro.backbones.server.replies import TOP_LOGPROBS

# Request fields that the backbone sets itself, so `extra_body` may not.
RESERVED_FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "logprobs",
    "top_logprobs",
    "temperature",
    "top_p",
    "seed",
    "stream",
    "response_format",
    *CONTINUES,
}
# What vLLM and SGLang would otherwise take from the model's generation_config.json: Qwen's has top_k 20 and,
# in Qwen2.5-VL, a repetition penalty, which changes greedy replies too. A local model ignores that file.
NEUTRAL_SAMPLING: Mapping[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    # Since vLLM 0.31.
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
# Of a call that is answered with one token.
CHOICE_FIELDS: Mapping[str, Any] = {"max_tokens": 1, "temperature": 0.0, "top_logprobs": TOP_LOGPROBS}


def reply_fields(sampling: Sampling, seed: int | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a call whose reply is written, and fits `schema` if there is one."""
    fields: dict[str, Any] = {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature}
    if sampling.temperature > 0:
        fields["top_p"] = sampling.top_p
        if seed is not None:
            fields["seed"] = seed
    if schema is not None:
        fields["response_format"] = response_format(schema)
    return fields


def request_body(model: str, encoded: Messages, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request with log-probabilities."""
    body = {"model": model, "messages": encoded.messages, "logprobs": True, **fields}
    # The user's fields beside those that carry the frames' times, not in place of them.
    for name, value in encoded.extra_body.items():
        body[name] = {**value, **body[name]} if name in body else value
    return body


def row_seed(seed: int, row: int) -> int:
    """The seed for a row of a batch, 0 to 2**31 - 1; row 0 gets `seed` itself."""
    if row == 0:
        return seed
    return int(np.random.SeedSequence([seed, row]).generate_state(1)[0]) >> 1
