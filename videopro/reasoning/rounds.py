"""A trace's round from a planner's reply, and what rounds cost.

Knows planners' replies, programs and traces; nothing of how a program is run.
"""

from __future__ import annotations

from collections.abc import Iterable

from videopro.planners import PlannerReply, PromptKind
from videopro.program import Program, parse_program
from videopro.traces import Cost, Round


def round_from_reply(
    kind: PromptKind, reply: PlannerReply, *, seconds: float | None = None, refines: int | None = None
) -> tuple[Round, Program]:
    """The round of a reply, not run yet, and the program in it.

    `seconds`: wall time of writing it, for the stage "plan"; None where it was not measured. `refines`: the
    place of the round that it refines (synthesis).
    """
    program = parse_program(reply.text)
    round = Round(
        kind,
        reply.text,
        program.code or None,
        mode=program.mode if program.code.strip() else None,
        faults=program.faults,
        notes=dict(reply.notes),
        planning=Cost(
            0.0 if seconds is None else seconds,
            {} if seconds is None else {"plan": seconds},
            calls=reply.calls,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
        ),
        refines=refines,
    )
    return round, program


def cost_of_rounds(rounds: Iterable[Round]) -> Cost:
    """What planning and running took, summed."""
    cost = Cost()
    for round in rounds:
        cost += round.planning
        if round.execution is not None:
            cost += round.execution.cost
    return cost
