"""The settings that all agents share, and the budget of a question: how many frames, tokens and steps an
agent may spend on it, besides its calls and seconds.

All are enforced alike: an agent that has spent one of them stops its search and answers from what it knows.
That last answer may exceed the frames, tokens and steps; its cost is counted like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from videopro.backbones import Sampling
from videopro.backbones.wrappers import QuestionBudget
from videopro.cli import option
from videopro.errors import BudgetExceeded, ConfigError
from videopro.methods.base import WritingSettings
from videopro.modules import SPEECH_HELP, check_speech

PRESET_HELP = (
    "paper: the paper's settings; equal: as many frames per model call as the backbone's budget, for "
    "comparisons with other methods"
)
ROLE_HELP = (
    "self (the run's backbone), a hub name, a folder, server:MODEL@URL, a plug-in (each with +ADAPTER), or "
    "api:MODEL@URL"
)


@dataclass(frozen=True)
class AgentSettings(WritingSettings):
    """Settings of every agent. Its papers' hyper-parameters are in the settings of each method."""

    preset: Literal["paper", "equal"] = option("paper", PRESET_HELP, answers=True)
    temperature: float = option(0.0, "sampling temperature of replies; 0: greedy", client="any", answers=True)
    speech: str = option("none", SPEECH_HELP, answers=True)
    max_frames: int | None = option(
        None, "maximum frames per question; unset: no limit", client="less", answers=True
    )
    max_tokens: int | None = option(
        None, "maximum tokens per question; unset: no limit", client="less", answers=True
    )
    max_steps: int | None = option(
        None, "maximum steps per question; unset: no limit", client="less", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_speech(self.speech)
        for name in ("max_frames", "max_tokens", "max_steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}; it must be above 0, or unset for no limit")
        self.sampling()

    def sampling(self, seed: int | None = None) -> Sampling:
        """How replies are sampled. Raises ConfigError."""
        return Sampling(self.max_new_tokens, self.temperature, seed=seed)


class Budget(QuestionBudget):
    """The budget of one question and what it has spent; None: no limit. Used by one thread."""

    def __init__(
        self,
        max_frames: int | None = None,
        max_tokens: int | None = None,
        max_steps: int | None = None,
        *,
        calls: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """`max_frames`: different moments of the video that may be shown to a model."""
        super().__init__(calls, seconds)
        self.max_frames = max_frames
        self.tokens = 0
        """Prompt and reply tokens of all calls."""
        self.steps = 0
        """Recorded steps."""
        self.seen: set[float] = set()
        """The moments (s, in ms precision) that were shown."""
        self._max_tokens = max_tokens
        self._max_steps = max_steps

    def check(self, calls: int = 1) -> None:
        """Call before a step. Raises BudgetExceeded if no step may follow; only the calls and seconds limit
        the last answer."""
        super().check(calls)
        if not self.keeps_one:
            return
        if self._max_steps is not None and self.steps >= self._max_steps:
            raise BudgetExceeded("Steps", f"the budget of {self._max_steps} steps is spent")
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            raise BudgetExceeded(
                "Tokens", f"the budget of {self._max_tokens} tokens is spent ({self.tokens})"
            )

    def frames_left(self) -> int | None:
        """How many new moments may still be shown; None: any number."""
        limit = self.max_frames
        return None if limit is None or not self.keeps_one else max(0, limit - len(self.seen))

    def allowed(self, times: Sequence[float]) -> list[float]:
        """Those of the times that may be shown, in order; they count as shown from now on. These are all that
        were shown before, and as many new ones as the limit leaves, spread evenly over the new ones. Raises
        BudgetExceeded if none may be shown."""
        left = self.frames_left()
        new = [time for time in dict.fromkeys(times) if round(time, 3) not in self.seen]
        if left is not None:
            new = spread(new, left)
        # Moments that were seen before cost nothing more.
        chosen = {*new}
        admitted = [time for time in times if time in chosen or round(time, 3) in self.seen]
        if times and not admitted:
            raise BudgetExceeded("Frames", f"the budget of {self.max_frames} frames is spent")
        self.seen.update(round(time, 3) for time in new)
        return admitted


def spread(times: Sequence[float], count: int) -> list[float]:
    """At most `count` of the times, in order: those in the middle of equal parts of the list."""
    if len(times) <= count:
        return list(times)
    return [times[(2 * index + 1) * len(times) // (2 * count)] for index in range(count)]
