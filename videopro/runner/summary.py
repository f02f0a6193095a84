"""The summary of a run: its numbers as JSON and as a table, from its traces alone.

Knows traces and scoring; must not know how a run is carried out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from videopro.errors import RunError
from videopro.runner.folder import write_atomically
from videopro.trace import Trace

# Errors of the input: no method could have answered, so such a question leaves the denominator and shows in the
# coverage. Every other error (a refused request, a dead worker) counts as a wrong answer.
INPUT_ERRORS = ("VideoError", "SubtitleError")


def summarize(traces: Sequence[Trace]) -> dict[str, Any]:
    """The numbers of a run. Raises RunError for a run without a single trace."""
    if not traces:
        raise RunError("the run has no traces, so there is nothing to sum up")
    counted = [trace for trace in traces if trace.error is None or trace.error.type not in INPUT_ERRORS]
    videos = {trace.video.key for trace in traces}
    read = {trace.video.key for trace in counted}
    right = [trace.final is not None and trace.final.letter == trace.gold for trace in counted]
    return {
        "n": len(counted),
        "accuracy": sum(right) / len(counted) if counted else None,
        "coverage": len(read) / len(videos),
        "errors": dict(Counter(trace.error.type for trace in traces if trace.error)),
    }


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json as a whole or not at all. Raises RunError."""
    try:
        write_atomically(path, json.dumps(summary, indent=2) + "\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror})") from error


def table(summary: Mapping[str, Any]) -> Table:
    grid = Table()
    grid.add_row(*[str(v) for v in summary.values()])
    return grid
