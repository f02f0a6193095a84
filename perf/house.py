"""Counts how a checkout is built: rooms, floors, arrows and circles of its imports.

    python perf/house.py [CHECKOUT ...] [--output FILE]
    python perf/house.py BEFORE . --output perf/house.json      # docs/architecture.md
    python perf/house.py --edges                                # the imports behind every arrow

What a room, a door and an arrow are: perf/counting/rooms.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.counting.imports import circles, floors
from perf.counting.rooms import edges, rooms
from perf.counting.sources import sources
from perf.recording import write_record
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.settings import setting


@dataclass(frozen=True)
class HouseSettings:
    """Which checkouts, and what is shown of them."""

    checkouts: tuple[Path, ...] = field(
        default=(), metadata=setting("roots of checkouts; none: this one", positional=True)
    )
    edges: bool = field(
        default=False, metadata=setting("list the imports between files behind every arrow instead")
    )
    output: Path | None = field(
        default=None, metadata=setting("JSON file for the figures; unset: print them")
    )


COMMAND = CommandLine("perf.house", HouseSettings, summary="Count rooms, floors, arrows and circles.")


def commit(root: Path) -> str | None:
    """The commit that is checked out there; None outside of git."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def measured(root: Path) -> dict[str, object]:
    """The figures of one checkout."""
    counted = rooms(sources(root))
    imported = [(name, target) for name, targets in counted.files.items() for target in targets]
    return {
        "commit": commit(root),
        "rooms": counted.names,
        "doors": counted.doors,
        "arrows": len(counted.arrows),
        "floors": floors(counted.arrows),
        "circles": {"rooms": circles(counted.arrows), "files": circles(imported)},
    }


def count(given: HouseSettings) -> None:
    """Print or write what was asked for."""
    roots = given.checkouts or (ROOT,)
    if given.edges:
        print("\n".join(edges(rooms(sources(root))) for root in roots))
        return
    figures = [measured(root.resolve()) for root in roots]
    if given.output is not None:
        write_record(given.output, figures)
    else:
        print(json.dumps(figures, indent=1))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped") as status:
        count(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
