"""The settings that all agents share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from videopro.backbones import Sampling, check_key_name
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.modules import SPEECH_HELP, check_speech
from videopro.traces import FallbackRule


@dataclass(frozen=True)
class BudgetLimits:
    """The limits for one question; None: no limit. Raises ConfigError for a limit that is not positive."""

    max_frames: int | None = None
    """Different moments of the video that may be shown to a model."""
    max_tokens: int | None = None
    """Prompt and reply tokens of all calls."""
    max_steps: int | None = None
    """Recorded steps."""
    max_seconds: float | None = None
    """Wall time since the question was started."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None and not value > 0:
                raise ConfigError(f"{limit.name} is {value}; it must be above 0, or unset for no limit")


class BudgetSpent(Exception):
    """A question has spent its budget; the message says which limit, for the trace."""


class Budget:
    """What one question has spent of its limits. Used by one thread."""

    def __init__(self, limits: BudgetLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.tokens = 0
        self.steps = 0
        self.seen: set[float] = set()
        """The moments (s, in ms precision) that were shown."""
        self._clock = clock
        self._since = clock()
        self._is_over = False

    def finish(self) -> None:
        """Allow the last answer: from now on nothing is checked."""
        self._is_over = True

    def check(self) -> None:
        """Call before a step. Raises BudgetSpent if no step may follow."""
        if self._is_over:
            return
        limits = self.limits
        if limits.max_steps is not None and self.steps >= limits.max_steps:
            raise BudgetSpent(f"the budget of {limits.max_steps} steps is spent")
        if limits.max_tokens is not None and self.tokens >= limits.max_tokens:
            raise BudgetSpent(f"the budget of {limits.max_tokens} tokens is spent ({self.tokens})")
        if limits.max_seconds is not None and self._clock() - self._since >= limits.max_seconds:
            raise BudgetSpent(f"the budget of {limits.max_seconds:g} seconds is spent")

    def frames_left(self) -> int | None:
        """How many new moments may still be shown; None: any number."""
        limit = self.limits.max_frames
        return None if limit is None or self._is_over else max(0, limit - len(self.seen))

    def allowed(self, times: Sequence[float]) -> list[float]:
        """Those of the times that may be shown, in order; they count as shown from now on. These are all that
        were shown before, and as many new ones as the limit leaves, spread evenly over the new ones. Raises
        BudgetSpent if none may be shown."""
        left = self.frames_left()
        new = [time for time in dict.fromkeys(times) if round(time, 3) not in self.seen]
        if left is not None and len(new) > left:
            new = spread(new, left)
        # Moments that were seen before cost nothing more.
        chosen = {*new}
        admitted = [time for time in times if time in chosen or round(time, 3) in self.seen]
        if times and not admitted:
            raise BudgetSpent(f"the budget of {self.limits.max_frames} frames is spent")
        self.seen.update(round(time, 3) for time in new)
        return admitted


def spread(times: Sequence[float], count: int) -> list[float]:
    """At most `count` of the times, in order: those in the middle of equal parts of the list."""
    if len(times) <= count:
        return list(times)
    return [times[(2 * index + 1) * len(times) // (2 * count)] for index in range(count)]


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
