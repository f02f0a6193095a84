"""Observers are notified of each program, call and result while a question is answered."""

from __future__ import annotations

from typing import Protocol

from videopro.traces import Call, Execution, Round


class Observer(Protocol):
    """Notified in order; events of questions that run in parallel are interleaved."""

    def on_reply(self, round: Round) -> None:
        """The planner replied; its program has not run yet."""

    def on_call(self, call: Call) -> None:
        """A module call returned or failed."""

    def on_execution(self, execution: Execution) -> None:
        """The program ended."""
