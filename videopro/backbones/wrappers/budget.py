"""What a question may spend: calls of language and vision-language models, and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from videopro.errors import BudgetExceeded
from videopro.question import Answer


class QuestionBudget:
    """The budget of one question and what it has spent; None: no limit. Used by one thread at a time.

    One call, and the time of the longest one so far, are kept back for a call that answers the question. The
    seconds never refuse the first call: without it there is no answer.
    """

    def __init__(
        self,
        calls: int | None = None,
        seconds: float | None = None,
        began: float | None = None,
        choices: Sequence[str] = (),
    ) -> None:
        """`began`: when the question did, on the monotonic clock; None: now. `choices`: the question's, by
        which a program's call that answers it is known."""
        self.choices = choices
        self.answer: Answer | None = None
        """Of the latest such call."""
        self.seconds = seconds
        """The limit, in s."""
        self.keeps_one = True
        """Whether a call is kept back; not once there is an answer."""
        self._most = calls
        self._calls = 0
        self._began = time.monotonic() if began is None else began
        self._longest = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the limit; infinite without one."""
        return float("inf") if self.seconds is None else self._began + self.seconds - time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether not even one more call may be made."""
        return self._calls == self._most

    def check(self, calls: int = 1) -> None:
        """Raise BudgetExceeded if so many calls may not be made; 0: if no time is left for other work."""
        if self._most is not None and calls and self._calls + calls + self.keeps_one > self._most:
            raise BudgetExceeded("QuestionCalls", f"the question's budget of {self._most} calls is spent")
        if self._calls and self.seconds_left <= (self._longest if self.keeps_one else 0.0):
            raise BudgetExceeded("QuestionSeconds", f"the question's budget of {self.seconds:g} s is spent")

    @contextmanager
    def spending(self, calls: int = 1) -> Iterator[None]:
        """Around so many calls: checks before and counts after them, unless they failed. Raises
        BudgetExceeded."""
        self.check(calls)
        began = time.monotonic()
        yield
        self._calls += calls
        self._longest = max(self._longest, time.monotonic() - began)

    @contextmanager
    def last(self) -> Iterator[None]:
        """Within the block the question is answered: nothing is kept back for that."""
        before, self.keeps_one = self.keeps_one, False
        try:
            yield
        finally:
            self.keeps_one = before
