"""Who looks on while a question is answered: told of each program, each call and each result as it happens.

Knows traces; nothing of how programs come about.
"""

from __future__ import annotations

from typing import Protocol

from videopro.traces import Call, Execution, Round


class Observer(Protocol):
    """Told in order; with several questions side by side, what is told of them is mixed."""

    def on_reply(self, round: Round) -> None:
        """A planner's reply, not run yet."""

    def on_call(self, call: Call) -> None:
        """A module was called and came back, perhaps with an error."""

    def on_execution(self, execution: Execution) -> None:
        """The program came to its end."""
