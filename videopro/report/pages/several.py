"""The pages of several runs in one folder, with a page that lists the runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from videopro.report.pages.script import assignment
from videopro.report.pages.site import Site, check_output, write_assets, writing_to
from videopro.storage import write_atomically

# Seen from the pages of a run.
OVERVIEW = "../../index.html"


def run_names(runs: Sequence[Path]) -> list[str]:
    """A different name for each run: its path below the folder that holds them all, as one word."""
    paths = [run.resolve() for run in runs]
    common = Path(os.path.commonpath(paths))
    names: list[str] = []
    for path in paths:
        name = "-".join(path.relative_to(common).parts)
        candidates = [name, *(f"{name}-{number}" for number in range(2, len(names) + 2))]
        names.append(next(free for free in candidates if free not in names))
    return names


def start_overview(output: Path) -> None:
    """Begin the folder of several runs. Raises ConfigError if it contains other files or is not writable."""
    check_output(output)
    with writing_to(output):
        output.mkdir(parents=True, exist_ok=True)
        names = ("style.css", "theme.js", "view.js", "runs.js")
        write_assets(output, {"index.html": "runs.html", **{name: name for name in names}})


def write_overview(output: Path, sites: Sequence[Site]) -> Path:
    """Write the list of the runs, whose pages lie below `output`. Returns the page to open. Raises
    ConfigError if it cannot be written."""
    rows: list[dict[str, Any]] = []
    for site in sites:
        numbers = site.about["numbers"]
        rows.append(
            {
                "page": site.index.relative_to(output).as_posix(),
                "name": site.path.name,
                "run": site.about["run"],
                "accuracy": numbers["accuracy"],
                "questions": numbers["questions"],
                "videos": numbers["videos"],
                "unanswered": sum(numbers["errors"].values()),
            }
        )
    with writing_to(output):
        (output / "data").mkdir(exist_ok=True)
        write_atomically(output / "data" / "runs.js", assignment("runs", "", rows))
    return output / "index.html"
