"""Whether an answer cites the part of the video that holds it, by the benchmark's own annotation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from videopro.benchmarks.metrics import interval_iou
from videopro.traces import Trace, evidence


@dataclass(frozen=True)
class Citations:
    """What one answer cites."""

    video: str
    cites: bool
    """Whether it cites a part of the video."""
    tiou: float | None = None
    """Temporal IoU, 0 to 1, of what it cites with the annotated clue. Frames that are more than three seconds
    apart cover no time. None: no clue is annotated."""
    recall: float | None = None
    """The share of the clue's intervals in which it cites something."""
    moved: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether another letter, or none, came of asking again without what it cites, and with that alone; None:
    that failed. Empty without controls."""


def citations(traces: Sequence[Trace]) -> list[Citations]:
    """The citations of each answer. A question without an answer has none."""
    return [_citations(trace) for trace in traces if trace.error is None and trace.selected is not None]


def _citations(trace: Trace) -> Citations:
    pieces = [piece for piece in evidence(trace, most=sys.maxsize) if piece["cited"]]
    cited = [(piece["start"], piece["end"]) for piece in pieces if piece["start"] is not None]
    clue, moved = trace.evidence, _moved(trace)
    if not clue:
        return Citations(trace.video.key, bool(pieces), moved=moved)
    met = sum(any(first <= end and last >= start for first, last in cited) for start, end in clue)
    return Citations(trace.video.key, bool(pieces), interval_iou(cited, clue), met / len(clue), moved)


def _moved(trace: Trace) -> dict[str, bool | None]:
    execution = trace.rounds[trace.selected or 0].execution
    if execution is None:
        return {}
    controls, letter = execution.controls, execution.answer.letter
    return {name: None if each.failure else each.letter != letter for name, each in controls.items()}
