"""A planner behind an OpenAI-compatible endpoint: it reads the prompt, never the video (section 4).

It needs no log-probabilities, which endpoints of reasoning models do not return.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from videopro.backbones import Sampling, reply_notes
from videopro.backbones.server import ChatClient, Completion, api_config, read_reply
from videopro.errors import unexpected_as
from videopro.methods.planners.base import (
    PLAN_SAMPLING,
    EmptyReply,
    Planner,
    PlannerReply,
    PlanRequest,
    sampling_identity,
)
from videopro.methods.planners.served import stopping_run


class ApiPlanner(Planner):
    """`api:MODEL@URL`."""

    def __init__(
        self,
        spec: str,
        *,
        sampling: Sampling = PLAN_SAMPLING,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 300.0,
        retries: int = 4,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        """`sampling`: its seed is not used, because each request has its own. `api_key_env`: the environment
        variable that holds the key; None: OPENAI_API_KEY for OpenAI itself, and no key for any other.
        `concurrency`: maximum requests at a time, over all threads. `timeout`: seconds for one request.
        `retries`: after transient failures. `sleep` and `uniform` replace the wait and the jitter between
        retries in tests. Raises ConfigError for an invalid spec."""
        config = api_config(
            spec,
            "planner",
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
        )
        self.name = spec
        self._model = config.model
        self._sampling = sampling
        self._client = ChatClient(config, sleep=sleep, uniform=uniform)

    def identity(self) -> dict[str, object]:
        return {
            "planner": "api",
            "model": self._model,
            "url": self._client.url,
            **sampling_identity(self._sampling),
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError if the endpoint cannot serve any request: it is
        unreachable, or refuses the key or the model. Raises EmptyReply for a reply without text."""
        with stopping_run(self.name):
            replies, left_out = self._client.complete([self._body(request) for request in requests])
        with unexpected_as():
            return [self._read(reply, left_out) for reply in replies]

    def close(self) -> None:
        self._client.close()

    def _body(self, request: PlanRequest) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": request.prompt}],
            "temperature": self._sampling.temperature,
            "top_p": self._sampling.top_p,
            "max_tokens": self._sampling.max_new_tokens,
            "seed": request.seed,
        }

    def _read(self, reply: Completion, left_out: frozenset[str]) -> PlannerReply:
        found = read_reply(reply, f"planner {self.name}", self._sampling.max_new_tokens)
        if not found.text.strip():
            message = f"planner {self.name}: {found.why_empty}"
            raise EmptyReply(message, found.tokens_in, found.tokens_out)
        notes = {"left out": ", ".join(sorted(left_out))} if left_out else {}
        notes |= reply_notes(found.thoughts, found.cut_at)
        return PlannerReply(found.text, found.tokens_in, found.tokens_out, 1, notes)
