"""A table of the benchmarks: their splits, their protocols, and what their folders contain."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from videopro import benchmarks
from videopro.errors import BenchmarkError

_DEFAULTS = "The first split is the default. So is the protocol of its name, or else the first."


def listing(files: Sequence[str] = ()) -> Group:
    """The benchmarks, those of these files too, then the names that stand for several of them. Raises
    BenchmarkError for a file that describes none; a broken package is a row that says so."""
    table = Table(title="--benchmark", caption=_DEFAULTS)
    for name in ("name", "--split", "--protocol", "--root"):
        table.add_column(name, overflow="fold")
    # Imported here: it imports what draws and encodes videos.
    from videopro.pocket import world

    splits = ", ".join(("test", *(split for split in world.SPLITS if split != "test"), "fresh"))
    table.add_row("pocket", splits, "", "none: its videos are drawn")
    named = [name for name in benchmarks.NAMES if name not in ("pocket", "jsonl")]
    for name in [*named, *files]:
        _add(table, name)
    for name in benchmarks.installed():
        try:
            _add(table, name)
        except BenchmarkError as error:
            table.add_row(name, "", "", escape(str(error)))
    table.add_row("jsonl", "", "", "your own questions.jsonl and videos")
    presets = Table(title="several benchmarks under one name")
    for name in ("--benchmark", "runs", "frames a call"):
        presets.add_column(name, overflow="fold")
    for preset, (parts, frames) in benchmarks.PRESETS.items():
        names = ", ".join(f"{name} {split} ({protocol})" for name, split, protocol in parts)
        presets.add_row(preset, names, str(frames))
    return Group(table, presets)


def _add(table: Table, name: str) -> None:
    spec = benchmarks.find(name)
    if spec is None:
        raise BenchmarkError(f"{name!r} names no benchmark; give a .py file")
    protocols = ", ".join(protocol.name for protocol in spec.protocols)
    cells = (name, ", ".join(spec.splits), protocols, spec.holds)
    table.add_row(*map(escape, cells))
