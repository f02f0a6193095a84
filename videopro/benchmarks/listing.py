"""A table of the benchmarks: their splits, their protocols, and what their folders contain."""

from __future__ import annotations

from importlib import import_module

from rich.console import Group
from rich.table import Table

from videopro import benchmarks


def listing() -> Group:
    """The benchmarks, then the names that stand for several of them."""
    table = Table(title="--benchmark", caption="The first split and protocol are the defaults.")
    for name in ("name", "--split", "--protocol", "--root"):
        table.add_column(name, overflow="fold")
    # By name, because the pocket world is a higher layer.
    world = import_module("videopro.pocket.world")
    splits = ", ".join(("test", *(split for split in world.SPLITS if split != "test"), "fresh"))
    table.add_row("pocket", splits, "", "none: its videos are drawn")
    for spec in benchmarks.SPECS.values():
        protocols = ", ".join(protocol.name for protocol in spec.protocols)
        table.add_row(spec.name, ", ".join(spec.splits), protocols, spec.holds)
    table.add_row("jsonl", "", "", "your own questions.jsonl and videos")
    presets = Table(title="several benchmarks under one name")
    for name in ("--benchmark", "runs", "frames a call"):
        presets.add_column(name, overflow="fold")
    for preset, (parts, frames) in benchmarks.PRESETS.items():
        names = ", ".join(f"{name} {split} ({protocol})" for name, split, protocol in parts)
        presets.add_row(preset, names, str(frames))
    return Group(table, presets)
