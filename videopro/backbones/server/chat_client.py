"""Chat requests to an OpenAI-compatible endpoint whose model may refuse some of their fields.

It needs no log-probabilities, which endpoints of reasoning models do not return.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from videopro.backbones.address import read_address
from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.http import Endpoint, RequestRefused
from videopro.backbones.server.schemas import refuses_schema

# Requests in flight; hosted endpoints limit their rate.
_CONCURRENCY = 8
# Fields that some models refuse, each with the field that replaces it.
_REPLACED_FIELDS = {
    "temperature": None,
    "top_p": None,
    "max_tokens": "max_completion_tokens",
    "seed": None,
    "response_format": None,
}
# Statuses with which servers refuse a field.
_FIELD_STATUSES = (400, 422, 501)


def api_config(spec: str, where: str, **settings: Any) -> BackboneConfig:
    """The config for `api:MODEL@URL`. Raises ConfigError, which begins with `where`, for an invalid spec."""
    model, url = read_address(spec, where)
    return BackboneConfig(
        model=model, kind="server", base_url=url, **{"concurrency": _CONCURRENCY, **settings}
    )


class ChatClient:
    """A client that leaves out the fields that its server refuses, from the first refusal on. Thread-safe.

    `sleep` and `uniform` replace the wait and the jitter between retries in tests.
    """

    def __init__(
        self,
        config: BackboneConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._endpoint = Endpoint(config, sleep=sleep, uniform=uniform)
        self._refused: set[str] = set()
        """Fields that the server refuses."""

    @property
    def url(self) -> str:
        """The server's address, without credentials."""
        return self._endpoint.url

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[list[Completion], frozenset[str]]:
        """The replies, and the fields that were left out. Raises BackboneError."""
        while True:
            # A copy, because another thread may find another refused field meanwhile.
            left_out = frozenset(self._refused)
            fitted = [_without(body, left_out) for body in bodies]
            try:
                replies = self._endpoint.complete([partial(dict, body) for body in fitted])
            except RequestRefused as refused:
                field = _refused_field(refused, fitted[0], left_out)
                if field is None:
                    raise
                self._refused.add(field)
                continue
            return replies, left_out

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
