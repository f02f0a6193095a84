"""Format shares and their intervals as percentages."""

from __future__ import annotations

from collections.abc import Sequence


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal; "-" for None."""
    return "-" if share is None else f"{100 * share:.1f}"


def percent_interval(interval: Sequence[float] | None) -> str:
    """An interval of shares as percentages; "-" for None."""
    return "-" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
