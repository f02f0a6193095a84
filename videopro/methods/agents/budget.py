"""The budget of a question: how many frames, tokens, steps and seconds an agent may spend on it.

All four are enforced alike: an agent that has spent one of them stops its search and answers from what it
knows. That last answer may exceed the budget; its cost is counted like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from videopro.errors import ConfigError


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
