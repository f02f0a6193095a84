"""A table of the benchmarks: their splits, their protocols, and what their folders contain."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from videopro.benchmarks import BENCHMARKS, PRESETS
from videopro.errors import BenchmarkError

_DEFAULTS = "The first split is the default. So is the protocol of its name, or else the first."


def listing(files: Sequence[str] = ()) -> Group:
    """The benchmarks, those of these files too, then the names that stand for several of them. Raises
    BenchmarkError for a file that describes none; a broken package is a row that says so."""
    table = Table(title="--benchmark", caption=_DEFAULTS)
    for name in ("name", "--split", "--protocol", "--root"):
        table.add_column(name, overflow="fold")
    for name in [*BENCHMARKS, *files]:
        try:
            _add(table, name)
        except BenchmarkError as error:
            if name in files:
                raise
            table.add_row(name, "", "", escape(str(error)))
    presets = Table(title="several benchmarks under one name")
    for name in ("--benchmark", "runs", "frames a call"):
        presets.add_column(name, overflow="fold")
    for preset, (parts, frames) in PRESETS.items():
        names = ", ".join(f"{name} {split} ({protocol})" for name, split, protocol in parts)
        presets.add_row(preset, names, str(frames))
    return Group(table, presets)


def _add(table: Table, name: str) -> None:
    benchmark = BENCHMARKS[name]
    shown = ", ".join(protocol.name for protocol in benchmark.protocols)
    table.add_row(*map(escape, (name, ", ".join(benchmark.splits), shown, benchmark.holds)))
