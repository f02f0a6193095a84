"""Replies that the limit of tokens cut off, and replies that are no letter: why a run has few answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from videopro.traces.record import CUT_OFF, Trace

# How many different replies are named.
_NAMED = 3
_LONGEST = 20


def cut_replies(traces: Sequence[Trace]) -> dict[str, dict[str, Any]]:
    """The replies that were cut off, by what they are: written "answers", "programs", and "steps" of agents;
    only kinds of which there are any. `unsaid`: those that ended before the model said anything, as while it
    was thinking; `limits`: the numbers of tokens that cut them off."""
    counts: dict[str, dict[str, Any]] = {}
    for trace in traces:
        # A question counts once, however many of its replies were cut.
        for kind in {kind for kind, _, _ in _cuts(trace)}:
            counts.setdefault(kind, {"questions": 0, "replies": 0, "unsaid": 0, "limits": set()})
            counts[kind]["questions"] += 1
        for kind, limit, is_unsaid in _cuts(trace):
            counts[kind]["replies"] += 1
            counts[kind]["unsaid"] += is_unsaid
            counts[kind]["limits"].add(limit)
    return {kind: {**counts[kind], "limits": sorted(counts[kind]["limits"])} for kind in sorted(counts)}


def _cuts(trace: Trace) -> Iterator[tuple[str, int, bool]]:
    """What was cut off, at how many tokens, and whether nothing was said."""
    for round in trace.rounds:
        if round.prompt_kind != "native" and (limit := re.search(r"\d+", round.notes.get(CUT_OFF, ""))):
            yield "programs", int(limit[0]), not round.raw.strip()
        if round.execution is None:
            continue
        answer = round.execution.answer
        if answer.cut_at is not None:
            yield "answers", answer.cut_at, not answer.raw.strip()
        for step in round.execution.steps:
            if step.cut_at is not None:
                yield "steps", step.cut_at, not step.raw.strip()


def other_first_tokens(traces: Sequence[Trace]) -> dict[str, int]:
    """The most frequent first tokens of replies that were to be one letter and are none."""
    tokens = Counter(
        trace.final.raw.strip()[:_LONGEST]
        for trace in traces
        if trace.final is not None and trace.final.letters and trace.final.letter is None
    )
    return dict(tokens.most_common(_NAMED))
