"""What the stages of a reproduction will take: measured by its pilot, measured elsewhere, or assumed
(rates.yaml)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from videopro.cli import build_settings, read_yaml
from videopro.commands.reproduce.parts import Part
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import FILES, STAGES, TRAININGS, Command, Stage
from videopro.data_synthesis import run as synthesis
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.train.settings import RejectionConfig

RATES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("rates.yaml"))
_PAPER_ROWS = {"sft": 5_000, "grpo": 10_000}
"""Section 4: trajectories for SFT, prompts for GRPO."""

Plan = Mapping[str, Any]
"""Of a synthesis: `videopro.data_synthesis.plan`."""
Span = tuple[float, ...]
"""The least, what is expected, and the most."""


@dataclass(frozen=True)
class Measured:
    """What a pilot measured."""

    rows: int = 0
    """Of the pilot, in each stage."""
    stages: Mapping[str, Any] = field(default_factory=dict)
    cached: float = 0.0
    """Bytes of its cache for each hour of video."""
    gpus: int = 0
    processes: int = 1


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
        questions, _ = self._source()
        if kind in ("synthesize", "prompts"):
            return questions
        if kind == "rejection":
            prompts = self.plan["rows"]["grpo"]["rows"] if self.plan is not None else questions
            return float(prompts * settings.get("samples", RejectionConfig.samples))
        asked = {(each.name, each.split): questions for each, questions, _ in self._asked()}
        if kind in ("transcribe", "index"):
            return self.hours
        return asked[settings["benchmark"], settings["split"]] if kind == "infer" else 1.0

    @property
    def hours(self) -> float:
        """The hours of video that are asked about."""
        return self._source()[1] + sum(hours for *_, hours in self._asked())

    def written(self, stages: Sequence[Stage]) -> list[tuple[float, str]]:
        """The bytes that these stages write into the output and into the cache, without what they download
        and unpack, each with what it is and where it is known from."""
        found, known = self.measured.stages, f"by a pilot of {self.measured.rows} rows"
        if not stages or any(stage.name not in found for stage in stages):
            # Without GPUs nothing of the size of an 8B model is written.
            unit, names = 1e9 if self.road.gpus else 0.0, ("outputs", "cache")
            rates = [(name, RATES[name]) for name in names]
            return [(rate["GB"] * unit, f"{name} ({rate['basis']}: {rate['range']})") for name, rate in rates]
        outputs = 0.0
        for stage in stages:
            row, settings = found[stage.name], stage.commands[0].settings or {}
            work, had = sum(self.of(stage, each) or 0 for each in stage.commands), sum(row["work"])
            grown = work / had if had else 0.0
            # A training's output does not grow with its steps, and the pilot's has one checkpoint.
            outputs += row["bytes"] * (
                settings.get("save_total_limit", 1) if stage.kind in TRAININGS else grown
            )
        return [(outputs, f"outputs ({known})"), (self.measured.cached * self.hours, f"cache ({known})")]

    def _rows(self, kind: str) -> float | None:
        """The rows for a training; None: not known."""
        config = self.road.config
        file, maker = Path(getattr(config, f"{kind}_data")), config.makers[kind]
        if file.is_file():
            return float(sum(bool(line.strip()) for line in file.read_bytes().split(b"\n")))
        if maker not in ("", "synthesize"):
            # How much a planner gets right, or wrong, is not known before it is asked.
            return None
        if not maker or self.plan is None:
            return _PAPER_ROWS[kind]
        expected, target = float(self.plan["rows"][kind]["rows"]), self.plan["rows"][kind]["target"]
        if "synthesize" in self.measured.stages:
            made = self.measured.stages["synthesize"]
            expected = made["rows"][kind] / made["work"][0] * self.plan["sides"][kind]["questions"]
        return min(expected, target or expected)

    def _asked(self) -> Iterator[tuple[Part, float, float]]:
        """What is tested, with the questions that are asked and the hours of their videos."""
        for part in (*self.road.tested, *self.road.lengths):
            yield part, *self.road.size(part).asked(self.road.config.limit)

    def _source(self) -> tuple[float, float]:
        """The questions of the source that are asked, and the hours of their videos."""
        config = self.road.config
        if not any(config.makers.values()):
            return 0.0, 0.0
        size = self.road.size(self.road.source)
        if self.plan is None:
            return size.asked(self.road.synthesis_settings().get("limit"))
        return float(self.plan["questions"]), size.hours * self.plan["videos"] / max(size.videos, 1)


def plan_of_synthesis(road: Road, stages: Sequence[Stage]) -> Plan | None:
    """What the stage `synthesize` is expected to ask, give and cost, after printing it; None if it is not
    among the stages, or its annotations cannot be read yet: what is missing is named among the findings.
    Raises ConfigError for invalid settings."""
    if "synthesize" not in [stage.kind for stage in stages]:
        return None
    settings = build_settings(SynthesisConfig, {**road.synthesis_settings(), "plan": True}, "synthesize")
    if not all(road.size(part).is_counted for part in road.benchmarks()):
        return None
    return synthesis.run(settings)


def estimate(work: Work, stage: Stage) -> Estimate:
    """What a stage takes, as its pilot measured, or else by rates."""
    plan, measured, unit = work.plan, work.measured.stages.get(stage.name), STAGES[stage.kind]["unit"]
    amounts = [work.of(stage, command) for command in stage.commands]
    known, dollars = sum(each or 0 for each in amounts), None
    works_on = f"{number(known)} {unit}" if known and unit else ""
    if None in amounts:
        works_on = f"what {work.road.config.makers[stage.kind]} leaves"
    if stage.kind == "synthesize" and plan is not None and plan["teacher"]["requests"]:
        teacher = plan["teacher"]
        dollars, tokens = teacher["cost"], teacher["tokens in"] + teacher["tokens out"]
        if measured:
            grown = known / measured["work"][0]
            tokens = sum(measured["tokens"]) * grown
            dollars = measured["cost"] * grown if dollars is not None else None
        works_on += f", {teacher['requests']:,} requests and {tokens / 1e6:,.1f} million teacher tokens"
    if measured:
        parts = zip(measured["took"], measured["work"], amounts, strict=True)
        spans = [_measured(took, had, amount) for took, had, amount in parts if amount is not None]
        return Estimate(works_on, _sum(spans), dollars, "here")
    found = _by_rates(stage, plan, known) if known and work.road.gpus else []
    spans = [tuple(each / work.road.gpus for each in span) for span, _ in found]
    bases = [basis for _, basis in found]
    return Estimate(works_on, _sum(spans), dollars, "assumed" if "assumed" in bases else "".join(bases[:1]))


def _by_rates(stage: Stage, plan: Plan | None, amount: float) -> list[tuple[Span, str]]:
    """What so much work takes of one GPU's seconds in each part of a stage, and where that was measured."""
    if stage.kind == "synthesize" and plan is not None:
        seconds = plan["hours"]["model"] * 3600
        return [((seconds / 2, seconds, seconds * 2), "assumed")]
    method = (stage.commands[0].settings or {}).get("method", stage.kind)
    rates = [RATES[name] for name in STAGES[stage.kind].get("rates", (method,)) if name in RATES]
    return [(tuple(each * amount for each in rate["seconds"]), rate["basis"]) for rate in rates]


def _measured(took: Mapping[str, float], had: float, work: float) -> Span:
    """Seconds of a command for so much work, by what it took for what it had."""
    rate = took["working"] / had if had else 0.0
    starting = max(0.0, took["seconds"] - took["working"])
    return tuple(starting + rate * work * share for share in (1 - took["spread"], 1.0, 1 + took["spread"]))


def _sum(spans: Sequence[Span]) -> Span | None:
    return tuple(map(sum, zip(*spans, strict=True))) or None


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
    right = Column("dollars", justify="right")
    table = Table("stage", "works on", "time", "measured", right, caption=caption, caption_justify="left")
    for name, each in found.items():
        table.add_row(name, each.works_on, _time(each.seconds), each.basis, number(each.dollars))
    table.add_section()
    table.add_row("remaining", "", _time(total), "", number(dollars), style="bold")
    Console().print(table)
    for stage in stages:
        print(f"{stage.name}: {stage.does}", *stage.commands, sep="\n    ")


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
