"""Whether an answer cites the part of the video that holds it, by the benchmark's own annotation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

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


def citations(traces: Sequence[Trace]) -> list[Citations]:
    """The citations of each answer. A question without an answer has none."""
    return [_citations(trace) for trace in traces if trace.error is None and trace.selected is not None]


def _citations(trace: Trace) -> Citations:
    pieces = [piece for piece in evidence(trace, most=sys.maxsize) if piece["cited"]]
    cited = [(piece["start"], piece["end"]) for piece in pieces if piece["start"] is not None]
    clue = trace.evidence
    if not clue:
        return Citations(trace.video.key, bool(pieces))
    met = sum(any(first <= end and last >= start for first, last in cited) for start, end in clue)
    return Citations(trace.video.key, bool(pieces), interval_iou(cited, clue), met / len(clue))
