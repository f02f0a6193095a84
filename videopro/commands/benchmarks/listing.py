"""A table of the benchmarks: their splits, their protocols, and what their folders contain."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group

from videopro import benchmarks
from videopro.cli import TextTable
from videopro.errors import BenchmarkError

_DEFAULTS = "The first split is the default. So is the protocol of its name, or else the first."


def listing(files: Sequence[str] = ()) -> Group:
    """The benchmarks, those of these files too, then the names that stand for several of them. Raises
    BenchmarkError for a file that describes none; a broken package is a row that says so."""
    # Imported here: it imports what draws and encodes videos.
    from videopro.pocket import world

    splits = ", ".join(("test", *(split for split in world.SPLITS if split != "test"), "fresh"))
    rows = [("pocket", splits, "", "none: its videos are drawn")]
    named = [name for name in benchmarks.NAMES if name not in ("pocket", "jsonl")]
    rows += map(_row, [*named, *files])
    for name in benchmarks.installed():
        try:
            rows.append(_row(name))
        except BenchmarkError as error:
            rows.append((name, "", "", str(error)))
    rows.append(("jsonl", "", "", "your own questions.jsonl and videos"))
    heads = ("name", "--split", "--protocol", "--root")
    presets = [
        (preset, ", ".join(f"{name} {split} ({protocol})" for name, split, protocol in parts), str(frames))
        for preset, (parts, frames) in benchmarks.PRESETS.items()
    ]
    return Group(
        TextTable("--benchmark", heads, tuple(rows), (_DEFAULTS,), lefts=frozenset(heads)),
        TextTable(
            "several benchmarks under one name",
            ("--benchmark", "runs", "frames a call"),
            tuple(presets),
            lefts=frozenset(("runs",)),
        ),
    )


def _row(name: str) -> tuple[str, str, str, str]:
    spec = benchmarks.find(name)
    if spec is None:
        raise BenchmarkError(f"{name!r} names no benchmark; give a .py file")
    protocols = ", ".join(protocol.name for protocol in spec.protocols)
    return name, ", ".join(spec.splits), protocols, spec.holds
