"""How much an agent may use of a video: calls, frames and seconds."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

from videopro.errors import ConfigError
from videopro.modules import ModuleError


class BudgetError(ModuleError):
    """A call that the budget does not allow; the message says what is left."""


@dataclass(frozen=True)
class Budget:
    """Limits of all calls together; None: no limit."""

    calls: int | None = None
    frames: int | None = None
    """Frames that calls look at; one that is looked at twice counts twice."""
    seconds: float | None = None
    """Time within calls. The one that exceeds it ends; the next is refused."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ConfigError(f"budget: {limit.name} is {value!r}; it must be above 0, or None")


class Spending:
    """What calls have used of a budget. Thread-safe."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self._calls = 0
        self._frames = 0
        self._seconds = 0.0

    def begin_call(self) -> None:
        """Count a call. Raises BudgetError if there is none left, or no time."""
        with self._lock:
            calls, seconds = self.budget.calls, self.budget.seconds
            if calls is not None and self._calls >= calls:
                raise BudgetError(f"the budget of {calls} calls is used up; answer from what was seen so far")
            if seconds is not None and self._seconds >= seconds:
                raise BudgetError(
                    f"the budget of {seconds:g} seconds is used up; answer from what was seen so far"
                )
            self._calls += 1

    def use_frames(self, count: int) -> None:
        """Count frames, before they are decoded. Raises BudgetError if so many are not left; then none are
        counted, and a smaller call may follow."""
        with self._lock:
            most = self.budget.frames
            if most is not None and self._frames + count > most:
                left = most - self._frames
                advice = "look at fewer" if left else "answer from what was seen so far"
                raise BudgetError(
                    f"this call looks at {count} frames, and {left} of the {most} of the budget are left; "
                    f"{advice}"
                )
            self._frames += count

    def end_call(self, seconds: float) -> None:
        """Count the time of a call."""
        with self._lock:
            self._seconds += seconds

    def used(self) -> dict[str, float]:
        """Calls, frames and seconds so far."""
        with self._lock:
            return {"calls": self._calls, "frames": self._frames, "seconds": round(self._seconds, 3)}

    def left(self) -> dict[str, float]:
        """What is left of each limit that the budget has."""
        used = self.used()
        limits = {limit.name: getattr(self.budget, limit.name) for limit in fields(self.budget)}
        return {
            name: round(max(0, limit - used[name]), 3) for name, limit in limits.items() if limit is not None
        }
