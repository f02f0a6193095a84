"""What the shipped planner's programs are worth if they are sampled."""

from __future__ import annotations

from perf.sampled import WORLDS, compared, lost_at_first
from perf.statements.shared import Statements, listed
from videopro.traces.scoring import percent

_NAMES = {"test": "test", "fresh": "the fresh world"}


def beside_greedy() -> str:
    """An item of what the figures do not show: each world sampled, and greedily on the same questions."""
    figures = {world: compared(world) for world in WORLDS}
    (how,) = {name for rows in figures.values() for name in rows if name != "greedy"}
    parts = []
    for world, rows in figures.items():
        seeds = len(rows[how]["seeds"])
        parts.append(
            f"{percent(rows[how]['accuracy'])} % of {rows[how]['questions']} questions of {_NAMES[world]} "
            f"({seeds} seed{'s' if seeds > 1 else ''}; greedy {percent(rows['greedy']['accuracy'])})"
        )
    broken = [percent(1 - rows[how]["well_formed"]) for rows in figures.values()]
    return f"""- **{how.capitalize()}**, as in the paper, the fine-tuned planner is right in {listed(parts)}:
        {listed(broken)} % of its first programs are malformed
        ([both ways](../planners.md#greedy-or-sampled))."""


def _grammar() -> list[str]:
    lost, malformed = lost_at_first()
    return [
        f"""Of the {lost} answers that the first greedy programs have right and the first sampled ones have
            not (all rows of test and the fresh world), {malformed} have a malformed program. The other
            {lost - malformed} programs are well-formed and look for something else, so a grammar for the
            form of programs would not mend them."""
    ]


STATEMENTS: Statements = {
    ("docs/results/pocket-sampled/test-0.json", "what a grammar would mend"): _grammar,
}
