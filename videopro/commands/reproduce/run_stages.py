"""The stages that answer the benchmarks, and report the results next to the paper's numbers (VideoPro,
section 4: Tables 1 to 5, Figures 2, 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import STAGES, Command, Stage
from videopro.modules.calls import REMOVABLE


def run_stages(road: Road) -> Iterator[Stage]:
    """A run of each method that the tables need, on their benchmarks."""
    tables, last = set(road.config.tables), road.after_grpo or road.after_sft
    for name, run in STAGES["infer"]["runs"].items():
        # Of an adapter made elsewhere, SFT is unknown.
        if (not tables & {*run.get("tables", tables)} and tables) or (name == "sft" and not road.has_both):
            continue
        whole = "tables" not in run and tables & {"1", "5", "figures"}
        adapter = {"last": last, "sft": road.after_sft or last}.get(run.get("adapter"), "")
        for group in REMOVABLE if name == "without" else ("",):
            options = {"without": [group]} if group else run.get("options", {})
            full = f"{name}-{group}".removesuffix("-")
            parts = road.tested if whole else road.ablated
            folders = {part: road.output / "runs" / full / part.folder for part in parts}
            commands = [
                road.launched(
                    "infer",
                    f"infer-{full}-{part.folder}",
                    road.infer_settings(part, run["method"], adapter, options, folder),
                    trains=False,
                )
                for part, folder in folders.items()
            ]
            yield road.stage(
                f"infer-{full}",
                *commands,
                does=run["does"].format(group=group),
                after=("sft", "grpo") if adapter else (),
                writes=tuple(folder / "summary.json" for folder in folders.values()),
            )


def report_stage(road: Road, runs: Sequence[Stage]) -> Stage:
    """The report of these runs."""
    titles = {"videopro": "SFT + GRPO=", "sft": "SFT="} if road.has_both else {}
    names = (stage.name.removeprefix("infer-") for stage in runs)
    named = (f"{titles.get(name, '')}{road.output / 'runs' / name}" for name in names)
    more = ("--published", "--title", "Reproduction of VideoPro", "--output", str(road.output / "report"))
    return road.stage("report", Command("report", (*named, *more)), after=tuple(stage.name for stage in runs))
