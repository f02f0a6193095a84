"""What the stages of a reproduction will take: measured by its pilot, measured elsewhere, or assumed
(rates.yaml)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from videopro.cli import build_settings, read_yaml
from videopro.commands.reproduce.pilot import Measured, Span
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import FILES, STAGES, TRAININGS, Command, Stage
from videopro.data_synthesis import run as synthesis
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.train.settings import RejectionConfig

RATES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("rates.yaml"))
_PAPER_ROWS = {"sft": 5_000, "grpo": 10_000}
"""Section 4: trajectories for SFT, prompts for GRPO."""

Plan = Mapping[str, Any]
"""Of a synthesis: `videopro.data_synthesis.plan`."""


@dataclass(frozen=True)
class Estimate:
    """What a stage takes."""

    works_on: str = ""
    """Such as "1,549 questions"."""
    seconds: Span | None = None
    """On the GPUs of the road; None: not estimated."""
    dollars: float | None = None
    basis: str = ""
    """Where the time was measured: here, elsewhere; or assumed."""


@dataclass(frozen=True)
class Work:
    """How much each stage of a reproduction has to do."""

    road: Road
    plan: Plan | None = None
    """None: not known before the annotations are there."""
    measured: Measured = field(default_factory=Measured)
    """By the pilot."""

    def of(self, stage: Stage, command: Command) -> float | None:
        """The work of a command in the unit of its stage; None: not known."""
        kind, settings = stage.kind, command.settings or {}
        if kind in FILES:
            return command.gigabytes
        if kind in TRAININGS:
            replies = int(settings.get("num_generations", 8)) if kind == "grpo" else 1
            if (steps := int(settings.get("max_steps", -1))) > 0:
                return float(steps * self.road.step_of(settings))
            rows = self._rows(kind)
            return None if rows is None else rows * replies * float(settings.get("num_train_epochs", 1))
        questions, hours = self._source()
        if kind in ("synthesize", "prompts"):
            return questions
        if kind == "rejection":
            prompts = self.plan["rows"]["grpo"]["rows"] if self.plan is not None else questions
            return float(prompts * settings.get("samples", RejectionConfig.samples))
        tested, limit = (*self.road.tested, *self.road.lengths), self.road.config.limit
        asked = {(each.name, each.split): self.road.size(each).asked(limit) for each in tested}
        if kind in ("transcribe", "index"):
            return hours + sum(of_part for _, of_part in asked.values())
        return asked[settings["benchmark"], settings["split"]][0] if kind == "infer" else 1.0

    def _rows(self, kind: str) -> float | None:
        """The rows for a training; None: not known."""
        config = self.road.config
        file, maker = Path(getattr(config, f"{kind}_data")), config.makers[kind]
        if file.is_file():
            with file.open("rb") as lines:
                return float(sum(bool(line.strip()) for line in lines))
        if maker not in ("", "synthesize"):
            # How much a planner gets right, or wrong, is not known before it is asked.
            return None
        if not maker or self.plan is None:
            return _PAPER_ROWS[kind]
        expected, target = float(self.plan["rows"][kind]["rows"]), self.plan["rows"][kind]["target"]
        if kind in self.measured.yields:
            expected = self.measured.yields[kind] * self.plan["sides"][kind]["questions"]
        return min(expected, target or expected)

    def _source(self) -> tuple[float, float]:
        """The questions of the source that are asked, and the hours of their videos."""
        config = self.road.config
        part = next((each for each in self.road.benchmarks() if each.name == config.source), None)
        if part is None or not any(config.makers.values()):
            return 0.0, 0.0
        size = self.road.size(part)
        if self.plan is None:
            return size.asked(self.road.synthesis_settings().get("limit"))
        return float(self.plan["questions"]), size.hours * self.plan["videos"] / max(size.videos, 1)

    def gigabytes_written(self, stages: Sequence[Stage]) -> tuple[dict[str, Span], str]:
        """What these stages write into "outputs" and "cache", without what they download and unpack; and
        where that is known from. Without GPUs nothing of the size of an 8B model is written; a training whose
        rows are not known yet caches nothing."""
        stages = [stage for stage in stages if stage.kind not in FILES]
        if stages and all(stage.name in self.measured.stages for stage in stages):
            rows = [
                self.measured.bytes_of(stage, sum(self.of(stage, each) or 0 for each in stage.commands))
                for stage in stages
            ]
            outputs, cache = (sum(column) / 1e9 for column in zip(*rows, strict=True))
            return {"outputs": (outputs,) * 3, "cache": (cache,) * 3}, "here"
        names = ("outputs", "cache") if self.road.gpus else ()
        return {name: tuple(RATES[name]["GB"]) for name in names}, "assumed"


def plan_of_synthesis(road: Road, stages: Sequence[Stage], *, quiet: bool = False) -> Plan | None:
    """What the stage `synthesize` is expected to ask, give and cost, after printing it unless `quiet`; None
    if it is not among the stages, or its annotations are not downloaded yet.

    Raises ConfigError for invalid settings, and if it would give no rows for a training that follows, before
    the teacher is paid.
    """
    config = road.config
    if "synthesize" not in [stage.kind for stage in stages]:
        return None
    settings = build_settings(SynthesisConfig, road.synthesis_settings(), "synthesize")
    for part in road.benchmarks():
        is_read = part.name == config.source or part.excluded in settings.exclude
        # Still to be downloaded, or only partly: what is missing is named among the findings.
        if is_read and not road.size(part).is_counted:
            return None
    with redirect_stdout(StringIO() if quiet else sys.stdout):
        plan = synthesis.run(replace(settings, plan=True))
    for name, maker in config.makers.items():
        if maker == "synthesize" and not plan["rows"][name]["rows"]:
            raise ConfigError(
                f"the synthesis would give no rows for {name}, as all videos may go to the other training; "
                "set another --synthesize seed=N or sft_share=SHARE, or use more questions"
            )
    return plan


def estimate(work: Work, stage: Stage) -> Estimate:
    """What a stage takes, as its pilot measured, or else by rates."""
    road, plan, measured, row = work.road, work.plan, work.measured, STAGES[stage.kind]
    amounts = [work.of(stage, command) for command in stage.commands]
    known, dollars = sum(each or 0 for each in amounts), None
    works_on = f"{number(known)} {row['unit']}" if known and row["unit"] else ""
    if None in amounts:
        works_on = f"what {road.config.makers[stage.kind]} leaves"
    if stage.kind == "synthesize" and plan is not None and plan["teacher"]["requests"]:
        teacher = plan["teacher"]
        dollars, tokens = teacher["cost"], (teacher["tokens in"] + teacher["tokens out"]) / 1e6
        works_on += f", {teacher['requests']:,} requests and {tokens:,.1f} million teacher tokens"
    if stage.name in measured.stages:
        spans = [measured.span(stage.name, position, amount) for position, amount in enumerate(amounts)]
        dollars = measured.dollars(known) if dollars is not None else None
        return Estimate(works_on, _sum(spans), dollars, "here")
    if not known or not road.gpus:
        return Estimate(works_on, None, dollars)
    if stage.kind == "synthesize" and plan is not None:
        seconds = plan["hours"]["model"] * 3600 / road.gpus
        return Estimate(works_on, (seconds / 2, seconds, seconds * 2), dollars, "assumed")
    method = (stage.commands[0].settings or {}).get("method", stage.kind)
    rates = [RATES[name] for name in row.get("rates", (method,)) if name in RATES]
    spans = [tuple(each * known / road.gpus for each in rate["seconds"]) for rate in rates]
    bases = [rate["basis"] for rate in rates]
    return Estimate(works_on, _sum(spans), None, "assumed" if "assumed" in bases else "".join(bases[:1]))


def _sum(spans: Sequence[Span | None]) -> Span | None:
    """All of them; None if one is not known."""
    least, seconds, most = (sum(span[end] for span in spans if span is not None) for end in range(3))
    return None if None in spans or not spans else (least, seconds, most)


def show_plan(work: Work, stages: Sequence[Stage], done: Sequence[str]) -> None:
    """Print the stages with what each takes, and the commands. `done`: names of finished stages."""
    found = {each.name: Estimate("done") if each.name in done else estimate(work, each) for each in stages}
    total = _sum([each.seconds for each in found.values() if each.seconds is not None])
    dollars, gpus = sum(each.dollars or 0 for each in found.values()) or None, work.road.gpus
    caption = "-: not estimated; --pilot measures it."
    if any(each.basis == "here" for each in found.values()):
        caption += f" here: by a pilot of {work.measured.rows} rows."
    if total is not None and gpus:
        caption += f" {number(total[1] * gpus / 3600)} GPU-hours on {gpus} GPUs."
    table = Table(title="stages", title_justify="left", caption=caption, caption_justify="left")
    for name in ("stage", "works on", "time", "measured", "dollars"):
        table.add_column(name, no_wrap=name != "works on", justify="right" if name == "dollars" else "left")
    for name, each in found.items():
        table.add_row(name, each.works_on, _time(each.seconds), each.basis, number(each.dollars))
    table.add_section()
    table.add_row("remaining", "", _time(total), "", number(dollars), style="bold")
    console = Console()
    console.print(table)
    for stage in stages:
        console.print(Text(f"{stage.name}: {stage.does}", style="bold"), soft_wrap=True)
        for line in stage.shown:
            console.print(Text(f"    {line}"), soft_wrap=True)


def _time(span: Span | None) -> str:
    return "-" if span is None else f"{duration(span[1])} ({duration(span[0])} to {duration(span[2])})"


def duration(seconds: float) -> str:
    """A time as text: 52 s, 18 min, 3.1 h."""
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{number(seconds / 3600)} h"


def number(value: float | None) -> str:
    """A quantity as text, with a decimal if it is small; "-" if it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"
