"""The pilot of a reproduction: a few rows through every stage, to measure what all of them will take.

It runs in OUTPUT/pilot with a cache of its own, on the same machine, models and modules. What it downloads
and unpacks first is not done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro.cli import TextTable
from videopro.commands.doctor import bytes_in
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record, Took, check_same, run_stages, write_settings
from videopro.commands.reproduce.stages import FILES, STAGES, TRAININGS, Command, Stage
from videopro.storage import write_file

STEPS = 4
"""Steps of each training; the first one also allocates and compiles."""

Span = tuple[float, float, float]
"""The least, what is expected, and the most."""


@dataclass(frozen=True)
class Measured:
    """What a pilot measured."""

    rows: int = 0
    """Of the pilot, in each stage."""
    stages: Mapping[str, Any] = field(default_factory=dict)

    @property
    def yields(self) -> dict[str, float]:
        """The rows that a question gave for "sft" and "grpo"."""
        made = self.stages.get("synthesize", {})
        return {kind: count / made["work"][0] for kind, count in made.get("rows", {}).items()}

    def span(self, stage: str, position: int, work: float | None) -> Span | None:
        """Seconds of a stage's command for so much work; None: not known."""
        took, had = Took(**self.stages[stage]["took"][position]), self.stages[stage]["work"][position]
        if work is None:
            return None
        starting, working = max(0.0, took.seconds - took.working), took.working * work / had if had else 0.0
        least, most = working * (1 - took.spread), working * (1 + took.spread)
        return starting + least, starting + working, starting + most

    def dollars(self, questions: float) -> float | None:
        """What the teacher costs for so many questions; None without prices."""
        made = self.stages["synthesize"]
        return None if made["cost"] is None else made["cost"] * questions / made["work"][0]

    def bytes_of(self, stage: Stage, work: float) -> tuple[float, float]:
        """What a stage will write for so much work into the output, and into the cache."""
        row, settings = self.stages[stage.name], stage.commands[0].settings or {}
        grown = work / had if (had := sum(row["work"])) else 0.0
        # A training's output does not grow with its steps, and the pilot's has one checkpoint.
        times = settings.get("save_total_limit", 1) if stage.kind in TRAININGS else grown
        return (row["bytes"] - row["cached"]) * times, row["cached"] * grown


def pilot_of(road: Road, rows: int) -> Road:
    """The road of a pilot: the same with fewer rows."""
    config, steps = road.config, {"max_steps": STEPS}
    # Each question gives rows for both trainings: few videos may all be for one of them.
    both = {"sft_share": None, "grpo_programs": None} if config.grpo_prompts == "teacher" else {}
    few = replace(
        config,
        output=config.output / "pilot",
        limit=max(1, rows // len(road.tested)),
        synthesize={**config.synthesize, **both, "limit": rows},
        sft_settings={**config.sft_settings, **steps},
        grpo_settings={**config.grpo_settings, **steps},
    )
    return Road(few, road.devices)


def read_pilot(road: Road) -> Measured:
    """What the pilot of a road measured, whatever number of rows it had: of its stages, those that would have
    the same settings now."""
    path = road.output / "pilot" / "pilot.json"
    if not path.exists():
        return Measured()
    found = Measured(**json.loads(path.read_text()))
    keys = {each.name: each.key for each in stages_of(pilot_of(road, found.rows))}
    same = {name: row for name, row in found.stages.items() if row["key"] == keys.get(name)}
    return replace(found, stages=same)


def run_pilot(
    road: Road, stages: Sequence[Stage], work: Callable[[Stage, Command], float | None], before: Measured
) -> None:
    """Run the pilot's stages, and print what they took. `road`, `stages` and `work` are the pilot's;
    `before`: what an earlier call measured."""
    output, rows, record = road.output, int(road.config.synthesize["limit"]), Record(road.output)
    check_same(stages, record)
    found = dict(before.stages) if before.rows == rows else {}
    cache = (output / "cache").absolute()
    os.environ["VIDEOPRO_CACHE"] = str(cache)
    write_settings(stages)
    for stage in (each for each in stages if each.kind not in FILES):
        if stage.kind in TRAININGS:
            _fill(road, stage)
        if record.is_done(stage) and stage.name in found:
            continue
        in_all, cached = bytes_in(output), bytes_in(cache)
        run_stages([stage], output)
        found[stage.name] = {
            "key": stage.key,
            "work": [work(stage, command) for command in stage.commands],
            "took": [asdict(each) for each in record.took(stage)],
            "bytes": bytes_in(output) - in_all,
            "cached": bytes_in(cache) - cached,
            **_tokens(road, stage),
        }
        write_file(output / "pilot.json", json.dumps({"rows": rows, "stages": found}, indent=1) + "\n")
    _show(found)


def _fill(road: Road, stage: Stage) -> None:
    """Repeat the rows that the pilot made, so that they are enough for steps of full size."""
    settings = stage.commands[0].settings or {}
    path, replies = Path(settings["train_data"]), int(settings.get("num_generations", 1))
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    needed = -(-STEPS * road.step_of(settings) // replies)
    if road.output in path.parents and 0 < len(rows) < needed:
        write_file(path, "".join(rows[number % len(rows)] for number in range(needed)))


def _tokens(road: Road, stage: Stage) -> dict[str, Any]:
    """The tokens of a stage, in and out, where it counts them; and the rows that a synthesis made."""
    if stage.kind == "synthesize":
        used = json.loads((road.output / "synthesis" / "card.json").read_text())["teacher"]
        made = {path.stem: len(path.read_text().splitlines()) for path in stage.writes}
        return {"tokens": [used["tokens_in"], used["tokens_out"]], "cost": used["cost"], "rows": made}
    if stage.kind != "infer":
        return {}
    costs = [json.loads(path.read_text())["cost"] for path in stage.writes]
    return {"tokens": [sum(each[name] for each in costs) for name in ("tokens_in", "tokens_out")]}


def _show(found: Mapping[str, Any]) -> None:
    heads = ("stage", "work", "s", "working", "CPU s", "GB", "GPU GB", "tokens", "MB written")
    rows = []
    for name, row in found.items():
        unit, work = STAGES[name.partition("-")[0]]["unit"], sum(row["work"])
        sums = [sum(each[of] for each in row["took"]) for of in ("seconds", "working", "cpu_seconds")]
        most = [max(each[of] for each in row["took"]) / 1e9 for of in ("memory", "gpu_memory")]
        whole = (sum(row.get("tokens", ())), row["bytes"] / 1e6)
        texts = (*(f"{number:,.1f}" for number in (*sums, *most)), *(f"{number:,.0f}" for number in whole))
        rows.append((name, f"{work:,.3g} {unit}" if unit else "", *texts))
    Console().print(TextTable("pilot", heads, tuple(rows)))
