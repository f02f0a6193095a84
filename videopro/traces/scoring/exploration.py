"""How near an explorer of segments comes to the annotated evidence, from traces alone (VCA's section 5.3 and
Fig. 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videopro.traces.record import Segment, Step, Trace

# The kind of steps that split a segment and score its parts, and of those that choose one.
_SPLIT, _CHOICE = "reward", "explore"


@dataclass(frozen=True)
class SegmentChoice:
    """A segment that an agent chose to explore, against the evidence.

    A distance counts segments in order of time among the leaves of the tree at that moment, which tile the
    video: 0 for a segment that overlaps the evidence, 2 for the second one after it, -1 for the last one
    before it.
    """

    round: int
    chosen: str
    """The name of the segment."""
    distance: int
    greedy: str | None
    """The leaf with the highest score, the earliest among equals; None if no leaf has a score."""
    greedy_distance: int | None


def segment_choices(trace: Trace) -> list[SegmentChoice]:
    """Every choice of a segment in the trace, in order; empty if the trace has no steps of this kind, or if
    no evidence within its video is annotated.

    Fig. 5 does not say at which choices it measures; this takes all of them.
    """
    choices = []
    leaves: dict[str, Segment] = {}
    for step in trace.steps:
        if step.kind == _SPLIT and step.segments:
            # Its parts replace a segment among the leaves.
            leaves.pop(step.segments[0].parent, None)
            leaves.update({segment.name: segment for segment in step.segments})
        elif step.kind == _CHOICE and step.segments:
            choice = _choice(step, sorted(leaves.values(), key=lambda leaf: leaf.start), trace.evidence)
            if choice is not None:
                choices.append(choice)
    return choices


def _choice(
    step: Step, leaves: Sequence[Segment], evidence: Sequence[tuple[float, ...]]
) -> SegmentChoice | None:
    marked = [index for index, leaf in enumerate(leaves) if any(_overlaps(leaf, *span) for span in evidence)]
    if not marked:
        return None
    order = {leaf.name: index for index, leaf in enumerate(leaves)}

    def distance(name: str) -> int:
        # Equally near on both sides: it counts as before the evidence.
        return min((order[name] - index for index in marked), key=lambda gap: (abs(gap), gap))

    chosen = step.segments[0].name
    scored = [(leaf.score, leaf.name) for leaf in leaves if leaf.score is not None]
    greedy = max(scored, key=lambda pair: pair[0])[1] if scored else None
    return SegmentChoice(
        step.round, chosen, distance(chosen), greedy, None if greedy is None else distance(greedy)
    )


def _overlaps(leaf: Segment, start: float, end: float) -> bool:
    """Whether they share some time; evidence of no length is a moment."""
    if start == end:
        return leaf.start <= start <= leaf.end
    return leaf.start < end and start < leaf.end
