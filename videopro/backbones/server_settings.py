"""Settings of `--backbone` that hold for every server of a run: its own model's, a planner's, an answerer's,
those of agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self


@dataclass(frozen=True)
class ServerSettings:
    """How requests go to a server. They are no part of a run's key. Each model behind a server counts its own
    requests, also where two of them share an address."""

    concurrency: int = 64
    """Maximum requests in flight, over all threads: an 8B behind vLLM is in full use from about 32 on."""
    timeout: float = 300.0
    """Time limit of one request, in seconds."""
    retries: int = 4
    """Maximum retries after a transient failure."""
    engine: Literal["auto", "vllm", "sglang", "other"] = "auto"
    """The engine of servers that do not say it themselves; never of OpenAI. "auto": find out."""

    @classmethod
    def given_in(cls, settings: Mapping[str, Any]) -> Self:
        """Those among the settings of a backbone, else the defaults. They are checked where a server's config
        is made of them."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    def as_settings(self) -> dict[str, Any]:
        """As settings of a `BackboneConfig`."""
        return asdict(self)

    def for_api(self, concurrency: int) -> dict[str, Any]:
        """The same for a chat endpoint that limits its rate: at most `concurrency` requests."""
        return {
            "concurrency": min(self.concurrency, concurrency),
            "timeout": self.timeout,
            "retries": self.retries,
        }
