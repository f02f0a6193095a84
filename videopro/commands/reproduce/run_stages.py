"""The stages that answer the benchmarks, and report the results next to the paper's numbers (VideoPro,
section 4: Tables 1 to 5, Figures 2, 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from videopro.commands.reproduce.parts import Part
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Command, Stage
from videopro.modules.calls import REMOVABLE

REFINE_BELOW = 0.9
"""Refinements are stored up to this confidence, so that Figure 4 needs no run for each threshold."""


def run_stages(road: Road) -> Iterator[Stage]:
    """A run of each method that the tables need, on their benchmarks."""
    tables, final = set(road.config.tables), road.after_grpo or road.after_sft
    parts = road.tested if tables & {"1", "5", "figures"} else road.ablated
    yield _run(road, "native", "direct answers by the backbone", "native", parts)
    stores = {"refine_below": REFINE_BELOW}
    yield _run(road, "videopro", "adaptive programs, refined", "videopro", parts, final, stores)
    if "2" in tables:
        yield _run(road, "program", "multi-step programs (Table 2)", "program", road.ablated, final)
    has_both = bool(road.after_grpo and road.after_sft)
    if has_both and tables & {"3", "4"}:
        about = "SFT planner (Tables 3 and 4)"
        yield _run(road, "sft", about, "videopro", road.ablated, road.after_sft, stores)
    if "3" in tables:
        for group in REMOVABLE:
            yield _run(
                road,
                f"without-{group}",
                f"SFT planner without the {group} modules (Table 3)",
                "adaptive",
                road.ablated,
                road.after_sft or final,
                {"without": [group]},
            )


def _run(
    road: Road,
    name: str,
    does: str,
    method: str,
    parts: Sequence[Part],
    adapter: str = "",
    options: Mapping[str, Any] | None = None,
) -> Stage:
    folder = road.output / "runs" / name
    commands = []
    for part in parts:
        settings = road.infer_settings(part, method, adapter, options or {})
        settings["output"] = str(folder / part.folder)
        commands.append(road.launched("infer", f"infer-{name}-{part.folder}", settings, trains=False))
    written = tuple(folder / part.folder / "summary.json" for part in parts)
    trained = ("sft", "grpo") if adapter else ()
    return Stage(f"infer-{name}", does, tuple(commands), after=trained, writes=written)


def report_stage(road: Road, runs_before: Sequence[Stage]) -> Stage:
    """The report of these runs."""
    runs, final = road.output / "runs", road.after_grpo
    has_both = bool(final and road.after_sft)
    tables = set(road.config.tables)
    arguments = [str(runs / "native")]
    if has_both:
        arguments.append(f"SFT + GRPO={runs / 'videopro'}")
        if tables & {"3", "4"}:
            arguments.append(f"SFT={runs / 'sft'}")
    else:
        arguments.append(str(runs / "videopro"))
    arguments += [str(runs / "program")] if "2" in tables else []
    arguments += [str(runs / f"without-{group}") for group in REMOVABLE] if "3" in tables else []
    report = road.output / "report"
    command = Command(
        "report",
        (*arguments, "--published", "--title", "Reproduction of VideoPro", "--output", str(report)),
    )
    return Stage(
        "report",
        "tables and figures next to the paper's",
        (command,),
        after=tuple(stage.name for stage in runs_before),
        writes=(report / "report.html",),
    )
