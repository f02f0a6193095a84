"""The plan of a reproduction as tables: what it needs, its stages, and the cost of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from videopro.commands.reproduce.estimates import Estimate
from videopro.commands.reproduce.running import Record
from videopro.commands.reproduce.stages import Stage, shown


def show_plan(stages: Sequence[Stage], estimates: Mapping[str, Estimate], record: Record, gpus: int) -> None:
    """Print the stages with the cost of each, and the commands."""
    console = Console()
    table = Table(title="stages", title_justify="left", caption_justify="left")
    for name in ("stage", "works on"):
        table.add_column(name, overflow="fold")
    for name in ("GPU-hours", "dollars"):
        table.add_column(name, justify="right")
    for stage in stages:
        estimate = estimates[stage.name]
        works_on = "done" if record.is_done(stage) else estimate.works_on
        table.add_row(stage.name, works_on, _number(estimate.gpu_hours), _number(estimate.dollars))
    left = {stage.name: estimates[stage.name] for stage in stages if not record.is_done(stage)}
    hours = sum(each.gpu_hours or 0 for each in left.values())
    dollars = sum(each.dollars or 0 for each in left.values())
    table.add_section()
    table.add_row("remaining stages", "", _number(hours or None), _number(dollars or None), style="bold")
    table.caption = "\n".join(_notes(left, hours, gpus))
    console.print(table)
    for stage in stages:
        console.print(Text(f"{stage.name}: {stage.does}", style="bold"), soft_wrap=True)
        for line in shown(stage.commands):
            console.print(Text(f"    {line}"), soft_wrap=True)


def _notes(estimates: Mapping[str, Estimate], hours: float, gpus: int) -> list[str]:
    """What the numbers rest on. `estimates`: of the stages that are left, by their names."""
    if not hours:
        return ["-: not estimated, as this machine has no GPU."]
    stages: dict[str, dict[str, None]] = {}
    for name, each in estimates.items():
        if each.basis and each.gpu_hours is not None:
            stages.setdefault(each.basis, {})[name.partition("-")[0]] = None
    return [
        "All numbers are estimates; -: not estimated. They change with another GPU, trained weights "
        "or longer replies.",
        *(f"GPU-hours of {', '.join(kinds)}: {basis}." for basis, kinds in stages.items()),
        f"About {hours / max(gpus, 1):,.0f} hours on {gpus} {'GPU' if gpus == 1 else 'GPUs'}, where the "
        "work can be split.",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
