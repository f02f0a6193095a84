"""Counts how a checkout is built, for this one or others.

    python perf/house.py [CHECKOUT ...] [--output FILE]
    python perf/house.py BEFORE . --output perf/house.json      # docs/architecture.md
    python perf/house.py --edges                                # the imports behind every arrow
    python perf/house.py --names                                # the names that say nothing, with their lines
    python perf/house.py --comments                             # the share of comment lines by file

What is counted, and how: perf/counting has a file for each subject. Names, comments, functions and settings
are those of production: `videopro` with the folders linked into it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.counting.imports import circles, floors
from perf.counting.names import is_vague, names, vague_names
from perf.counting.rooms import Rooms, edges, rooms
from perf.counting.sizes import (
    comment_lines,
    comment_shares,
    function_lengths,
    line_count,
    lines_by_area,
    settings,
)
from perf.counting.sources import PACKAGE, Source, sources
from perf.counting.ways import packages_with_faces, stops, ways
from perf.recording import write_record
from videopro.cli import CommandLine, exit_status, setting


@dataclass(frozen=True)
class HouseSettings:
    """Which checkouts, and what is shown of them."""

    checkouts: tuple[Path, ...] = field(
        default=(), metadata=setting("roots of checkouts; none: this one", positional=True)
    )
    edges: bool = field(
        default=False, metadata=setting("list the imports between files behind every arrow instead")
    )
    names: bool = field(default=False, metadata=setting("list the names that say nothing instead"))
    comments: bool = field(
        default=False, metadata=setting("list the share of comment lines instead, by file")
    )
    output: Path | None = field(
        default=None, metadata=setting("JSON file for the figures; unset: print them")
    )


COMMAND = CommandLine(
    "perf.house", HouseSettings, summary="Count rooms, arrows, crossings, names, comments and lines."
)


def commit(root: Path) -> str | None:
    """The commit that is checked out there; None outside of git."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def measured(root: Path) -> dict[str, object]:
    """The figures of one checkout."""
    files = sources(root)
    counted = rooms(files)
    inside = production(files)
    imported = [(name, target) for name, targets in counted.files.items() for target in targets]
    bound = [name for source in inside for name, _ in names(source)]
    median, longest, where = function_lengths(inside)
    declared = settings(inside)
    return {
        "commit": commit(root),
        "rooms": counted.names,
        "doors": counted.doors,
        "arrows": len(counted.arrows),
        "floors": floors(counted.arrows),
        "circles": {"rooms": circles(counted.arrows), "files": circles(imported)},
        "ways": crossed(root, counted),
        "names": {"bound": len(bound), "vague": sum(map(is_vague, bound))},
        "comment_lines": sum(map(comment_lines, inside)),
        "code_lines": sum(map(line_count, inside)),
        "settings": {
            "declared": len(declared),
            "names": len({name.rpartition(".")[2] for name in declared}),
        },
        "functions": {"median": median, "longest": longest, "longest_is": where},
        "lines": lines_by_area(root),
    }


def production(files: Mapping[str, Source]) -> list[Source]:
    """The files of `videopro`, with the folders linked into it."""
    return [source for name, source in files.items() if name.split(".")[0] == PACKAGE]


def faces_of(counted: Rooms) -> set[str]:
    """The packages that the others know by what their `__init__` offers."""
    return packages_with_faces(
        {name: targets for name, targets in counted.files.items() if name.split(".")[0] == PACKAGE}
    )


def crossed(root: Path, counted: Rooms) -> list[dict[str, object]]:
    """The ways of a checkout with their files, stops and types."""
    faces = faces_of(counted)
    return [
        {"way": way.name, "files": way.files, "stops": stops(way.files, faces), "types": way.types}
        for way in ways(root)
    ]


def lists(request: HouseSettings, root: Path) -> str:
    """The lists of a checkout that were asked for."""
    files = sources(root)
    parts = []
    if request.edges:
        parts.append(edges(rooms(files)))
    if request.names:
        parts.append(vague_names(production(files)))
    if request.comments:
        parts.append(comment_shares(production(files)))
    return "\n".join(parts)


def count(request: HouseSettings) -> None:
    """Print or write what was asked for."""
    roots = [root.resolve() for root in request.checkouts or (ROOT,)]
    if request.edges or request.names or request.comments:
        print("\n".join(lists(request, root) for root in roots))
        return
    figures = [measured(root) for root in roots]
    if request.output is not None:
        write_record(request.output, figures)
    else:
        print(json.dumps(figures, indent=1))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped") as status:
        count(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
