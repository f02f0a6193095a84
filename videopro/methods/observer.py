"""Who is told what happens while a question is answered, such as a terminal."""

from __future__ import annotations

from typing import Protocol

from videopro.traces import Call, Execution, Round, Step


class Observer(Protocol):
    """Notified in order; events of questions that run in parallel are interleaved."""

    def on_wait(self, doing: str) -> None:
        """Something begins that takes long and shows nothing itself, such as "planning"."""

    def on_reply(self, round: Round) -> None:
        """The planner replied; its program has not run yet."""

    def on_call(self, call: Call) -> None:
        """A module call returned or failed."""

    def on_execution(self, execution: Execution) -> None:
        """The program ended."""

    def on_step(self, step: Step) -> None:
        """An agent took a step."""
