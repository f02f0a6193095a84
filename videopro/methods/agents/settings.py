"""The settings that all agents share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from videopro.backbones import Sampling, check_key_name
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.methods.agents.budget import BudgetLimits
from videopro.modules import SPEECH_HELP, check_speech
from videopro.traces import FallbackRule

PRESET_HELP = (
    "paper: the paper's own settings; equal: every call of a model shows as many frames as the backbone's "
    "budget, for comparisons with other methods"
)
ROLE_HELP = (
    "self (the run's backbone), pocket, a hub name, a folder, server:MODEL@URL (each with +ADAPTER), or "
    "api:MODEL@URL"
)


@dataclass(frozen=True)
class AgentSettings:
    """Settings of every agent. Its papers' hyper-parameters are in the settings of each method."""

    preset: Literal["paper", "equal"] = field(default="paper", metadata=setting(PRESET_HELP, answers=True))
    temperature: float = field(
        default=0.0,
        metadata=setting("sampling temperature of replies; 0: greedy", client="any", answers=True),
    )
    max_new_tokens: int = field(
        default=1024, metadata=setting("maximum tokens of a reply", client="less", answers=True)
    )
    constrain: bool = field(
        default=True,
        metadata=setting(
            "constrain structured replies to their schema if the server supports it", answers=True
        ),
    )
    subtitles: Literal["listed", "none"] = field(
        default="listed",
        metadata=setting("subtitles: those the benchmark lists, or none", client="any", answers=True),
    )
    speech: str = field(default="none", metadata=setting(SPEECH_HELP, answers=True))
    max_frames: int | None = field(
        default=None,
        metadata=setting("frames that a question may look at; unset: no limit", client="less", answers=True),
    )
    max_tokens: int | None = field(
        default=None,
        metadata=setting("tokens that a question may use; unset: no limit", client="less", answers=True),
    )
    max_steps: int | None = field(
        default=None,
        metadata=setting("steps that a question may take; unset: no limit", client="less", answers=True),
    )
    max_seconds: float | None = field(
        default=None,
        metadata=setting("seconds that a question may take; unset: no limit", client="less", answers=True),
    )
    fallback: FallbackRule = field(
        default="none",
        metadata=setting(
            "fallback if the agent gives no answer: none, or native (ask the model directly)",
            client="any",
            answers=True,
        ),
    )
    max_parallel: int = field(
        default=8, metadata=setting("maximum questions of a video in flight", answers=False)
    )
    api_key_env: str | None = field(
        default=None,
        metadata=setting(
            "variable with the API key of api: and server: roles; unset: OPENAI_API_KEY, for OpenAI only",
            answers=False,
        ),
    )

    def __post_init__(self) -> None:
        if self.max_parallel < 1:
            raise ConfigError(f"max_parallel is {self.max_parallel}; it must be at least 1")
        check_key_name(self.api_key_env)
        check_speech(self.speech)
        self.limits()
        self.sampling()

    def limits(self) -> BudgetLimits:
        """The budget of a question. Raises ConfigError."""
        return BudgetLimits(self.max_frames, self.max_tokens, self.max_steps, self.max_seconds)

    def sampling(self, seed: int | None = None) -> Sampling:
        """How replies are sampled. Raises ConfigError."""
        return Sampling(self.max_new_tokens, self.temperature, seed=seed)
