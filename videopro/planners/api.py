"""A teacher behind an OpenAI-compatible endpoint: it reads the prompt, never the video (section 4).

Needs no log-probabilities, which the endpoints of reasoning models do not give. Knows HTTP through the server
backbone's endpoint.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from videopro.backbones.base import BackboneConfig
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.http import Endpoint, RequestRefused
from videopro.errors import BackboneError, ConfigError, RunError
from videopro.planners.base import Planner, PlannerReply, PlanRequest
from videopro.storage import encodable

DEFAULT_URL = "https://api.openai.com/v1"
# Statuses that are about one request: its form or its length. Any other stands in the way of them all.
_QUESTIONS = (400, 413, 422)
# Reasoning models refuse a temperature and call the limit by another name.
_REASONING = {"temperature": None, "top_p": None, "max_tokens": "max_completion_tokens"}


class EmptyReply(BackboneError):
    """A reply without text, which was paid for all the same."""

    def __init__(self, message: str, tokens_in: int, tokens_out: int) -> None:
        super().__init__(message)
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out


class ApiPlanner(Planner):
    """`MODEL` or `MODEL@URL`; without a URL the environment's OPENAI_BASE_URL, else OpenAI's own."""

    def __init__(
        self,
        spec: str,
        *,
        temperature: float = 0.7,
        top_p: float = 1.0,
        max_new_tokens: int = 4096,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 300.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        """`api_key_env`: the variable that holds the key; None: OPENAI_API_KEY for OpenAI itself, else none.
        `concurrency`: requests in flight at most, of all threads together; `timeout`: seconds for one of
        them. `sleep` and `uniform` stand in for waiting and chance between tries. ConfigError for a spec of
        another form."""
        # A model's name may hold an @; what comes behind the last one is a URL or belongs to it.
        model, at, url = spec.rpartition("@")
        if not at or "://" not in url:
            model, url = spec, os.environ.get("OPENAI_BASE_URL", DEFAULT_URL)
        if not model:
            raise ConfigError(f"planner 'api:{spec}': write api:MODEL or api:MODEL@URL")
        self.name = f"api:{spec}"
        self._model = model
        self._url = url
        self._temperature = temperature
        self._top_p = top_p
        self._longest = max_new_tokens
        self._refused: set[str] = set()
        """Fields that the server does not take."""
        self._endpoint = Endpoint(
            BackboneConfig(
                model=model,
                kind="server",
                base_url=url,
                api_key_env=api_key_env,
                concurrency=concurrency,
                timeout=timeout,
            ),
            sleep=sleep,
            uniform=uniform,
        )

    def identity(self) -> dict[str, object]:
        return {
            "planner": "api",
            "model": self._model,
            "url": self._endpoint.url,
            "temperature": self._temperature,
            "top_p": self._top_p,
            "max_new_tokens": self._longest,
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError where the endpoint serves no request at all: it
        cannot be reached, or refuses the key or the model; EmptyReply for a reply without text."""
        while True:
            # As it was when these requests were sent: another thread may learn of a field meanwhile.
            left_out = frozenset(self._refused)
            try:
                replies = self._endpoint.complete([partial(self._body, one, left_out) for one in requests])
            except RequestRefused as refused:
                field = self._field_refused(refused, left_out)
                if field is not None:
                    self._refused.add(field)
                    continue
                if refused.status in _QUESTIONS:
                    raise
                raise RunError(self._stopped(refused)) from None
            except BackboneError as gone:
                raise RunError(self._stopped(gone)) from None
            return [self._written(reply, left_out) for reply in replies]

    def close(self) -> None:
        self._endpoint.close()

    def _body(self, request: PlanRequest, left_out: frozenset[str]) -> Mapping[str, Any]:
        fields: dict[str, Any] = {
            "temperature": self._temperature,
            "top_p": self._top_p,
            "max_tokens": self._longest,
            "seed": request.seed,
        }
        for name in left_out:
            value, other = fields.pop(name), _REASONING.get(name)
            if other is not None:
                fields[other] = value
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": request.prompt}],
            **fields,
        }

    def _field_refused(self, refused: RequestRefused, left_out: frozenset[str]) -> str | None:
        """Which field of ours a refusal is about, if it is about one that can still be left out."""
        if refused.status != 400:
            return None
        told = str(refused)
        named = [name for name in (*_REASONING, "seed") if name in told and name not in left_out]
        return named[0] if named else None

    def _stopped(self, error: BackboneError) -> str:
        return (
            f"planner {self.name}: {error}\nNo other question would be served either, so the run stops; what "
            "was answered is safe, and the same command goes on once this is mended."
        )

    def _written(self, reply: Completion, left_out: frozenset[str]) -> PlannerReply:
        choice, usage = reply.choices[0], reply.usage
        text = choice.message.content
        if text is None:
            raise EmptyReply(
                f"planner {self.name}: the reply has no text (finish reason {choice.finish_reason!r}); its "
                f"limit of {self._longest} tokens may have gone into reasoning",
                usage.prompt_tokens if usage else 0,
                usage.completion_tokens if usage else 0,
            )
        notes = {"left out": ", ".join(sorted(left_out))} if left_out else {}
        if choice.finish_reason == "length":
            notes["cut off"] = f"after {self._longest} tokens"
        return PlannerReply(
            encodable(text),
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
            1,
            notes,
        )
