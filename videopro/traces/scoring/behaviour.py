"""How an agent of Deep Video Discovery behaved on a question: the five classes of its Fig. 3, from its steps.

The paper describes the classes in words (section 4.5). Where they leave a case open, this file decides:

- What counts is the order of the tool calls, also of those that failed. Requests to the language model and
  the answer are no tool calls.
- A trap is a run of more than three calls of one tool, with no other tool in between. If both tools have
  one, the longer counts, and of equal ones the first.
- Otherwise Global Browse is left out, since every class may begin with it. At most two calls of Clip Search,
  and after them at most two of Frame Inspect, are a simple action; anything more, or a return from
  inspection to search, is an iterative search.
- An agent that answers without any tool is in no class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from videopro.traces.record import Step, Trace
from videopro.traces.scoring.agents import ACT
from videopro.traces.scoring.verdicts import records_of

Behaviour = Literal[
    "global_browse_only", "simple_action", "iterative_search", "frame_inspect_trap", "clip_search_trap"
]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
"""In the paper's order."""

_TRAPS: dict[str, Behaviour] = {
    "frame_inspect": "frame_inspect_trap",
    "clip_search": "clip_search_trap",
}
_TOOLS = ("global_browse", *_TRAPS)
_LONGEST_RUN = 3
_LONGEST_SIMPLE = 2


@dataclass(frozen=True)
class BehaviourRow:
    """A class of behaviour in a run: one sector of Fig. 3."""

    behaviour: Behaviour | None
    """None: questions that were answered without any tool."""
    questions: int
    ratio: float
    """Its share of the questions, 0..1."""
    steps: float
    """Mean number of reasoning steps: requests for the next action. A forced answer is none."""
    accuracy: float | None
    """0..1, of its questions with a known answer; None if it has none."""


def behaviour(steps: Iterable[Step]) -> Behaviour | None:
    """The class of one question; None if no tool was called."""
    calls = [step.kind for step in steps if step.kind in _TOOLS]
    if not calls:
        return None
    if calls == ["global_browse"]:
        return "global_browse_only"
    runs = [(tool, len(list(same))) for tool, same in groupby(calls)]
    traps = [run for run in runs if run[0] in _TRAPS and run[1] > _LONGEST_RUN]
    if traps:
        return _TRAPS[max(traps, key=lambda run: run[1])[0]]
    searches = [call for call in calls if call != "global_browse"]
    is_short = all(searches.count(tool) <= _LONGEST_SIMPLE for tool in _TRAPS)
    # In the order of the alphabet, every search comes before every inspection.
    return "simple_action" if is_short and searches == sorted(searches) else "iterative_search"


def behaviour_rows(traces: Iterable[Trace]) -> list[BehaviourRow]:
    """Fig. 3 of a run: a row for each class that occurs, in the paper's order, over the questions that have
    steps and no error."""
    answered = [trace for trace in traces if trace.error is None and trace.steps]
    groups = {name: [t for t in answered if behaviour(t.steps) == name] for name in (*BEHAVIOURS, None)}
    return [_row(name, members, len(answered)) for name, members in groups.items() if members]


def _row(name: Behaviour | None, members: Sequence[Trace], total: int) -> BehaviourRow:
    steps = sum(step.kind == ACT for trace in members for step in trace.steps)
    scores = [score.correct for score in records_of(members)]
    accuracy = sum(scores) / len(scores) if scores else None
    return BehaviourRow(name, len(members), len(members) / total, steps / len(members), accuracy)
