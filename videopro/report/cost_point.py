"""A run in the picture of accuracy against cost; apart from the drawing, which needs matplotlib."""

from __future__ import annotations

from dataclasses import dataclass

from videopro.traces.scoring import Accuracy


@dataclass(frozen=True)
class CostPoint:
    """A run in the picture of accuracy against cost."""

    name: str
    """Of the line that it is on: the method, its model and settings."""
    method: str
    benchmark: str
    budget: int | None
    """Frames per call."""
    accuracy: Accuracy
    frames: float
    """Frames seen, with those of the planner."""
    tokens: float
    """Tokens in and out, amortised."""
