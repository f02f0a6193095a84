"""The pilot of a reproduction: a few rows through every stage, to measure what all of them will take.

It runs in OUTPUT/pilot with a cache of its own, on the same machine, models and modules. What it downloads
and unpacks first is not done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from videopro.commands.doctor import bytes_in
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record, Took, run_stages, write_settings
from videopro.commands.reproduce.stages import STAGES, Command, Stage
from videopro.errors import writing_file
from videopro.storage import write_atomically

STEPS = 4
"""Steps of each training; the first one also allocates and compiles."""
_FILES = ("download", "check")

Span = tuple[float, float, float]
"""The least, what is expected, and the most."""


@dataclass(frozen=True)
class Measured:
    """What the pilot measured, by stage."""

    stages: Mapping[str, Any]

    @property
    def rows(self) -> dict[str, float]:
        """The rows that a question gave for "sft" and "grpo"."""
        made = self.stages.get("synthesize", {})
        return {kind: count / made["work"][0] for kind, count in made.get("rows", {}).items()}

    def span(self, stage: str, position: int, work: float | None) -> Span | None:
        """Seconds of a stage's command for so much work; None: not known."""
        took, had = Took(**self.stages[stage]["took"][position]), self.stages[stage]["work"][position]
        if work is None or had is None:
            return None
        starting, working = max(0.0, took.seconds - took.working), took.working * work / had if had else 0.0
        least, most = working * (1 - took.spread), working * (1 + took.spread)
        return starting + least, starting + working, starting + most

    def dollars(self, questions: float) -> float | None:
        """What the teacher costs for so many questions; None without prices."""
        made = self.stages["synthesize"]
        return None if made["cost"] is None else made["cost"] * questions / made["work"][0]


def pilot_of(road: Road) -> Road:
    """The road of the pilot: the same with fewer rows."""
    config, steps = road.config, {"max_steps": STEPS}
    # Each question gives rows for both trainings: few videos may all be for one of them.
    both = {"sft_share": None, "grpo_programs": None} if config.grpo_prompts == "teacher" else {}
    few = replace(
        config,
        output=config.output / "pilot",
        limit=max(1, config.pilot_rows // len(road.tested)),
        synthesize={**config.synthesize, **both, "limit": config.pilot_rows},
        sft_settings={**config.sft_settings, **steps},
        grpo_settings={**config.grpo_settings, **steps},
    )
    return Road(few, road.devices)


def read_pilot(road: Road, stages: Sequence[Stage]) -> Measured:
    """What the pilot of these stages, which are the pilot's, measured with their present settings."""
    path = road.output / "pilot.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    same = [each.name for each in stages if found.get(each.name, {}).get("key") == each.key]
    return Measured({name: found[name] for name in same})


def run_pilot(road: Road, stages: Sequence[Stage], work: Callable[[Stage, Command], float | None]) -> None:
    """Run the pilot's stages, and print what they took. `road`, `stages` and `work` are the pilot's."""
    found = dict(read_pilot(road, stages).stages)
    os.environ["VIDEOPRO_CACHE"] = str((road.output / "cache").absolute())
    write_settings(stages)
    for stage in (each for each in stages if each.kind not in _FILES):
        if stage.kind in ("sft", "grpo"):
            _fill(road, stage)
        if Record(road.output).is_done(stage) and stage.name in found:
            continue
        before = bytes_in(road.output)
        run_stages([stage], road.output)
        found[stage.name] = {
            "key": stage.key,
            "work": [work(stage, command) for command in stage.commands],
            "took": [asdict(each) for each in Record(road.output).took(stage)],
            "bytes": bytes_in(road.output) - before,
            **_tokens(road, stage),
        }
        with writing_file(road.output / "pilot.json"):
            write_atomically(road.output / "pilot.json", json.dumps(found, indent=1) + "\n")
    _show(found)


def _fill(road: Road, stage: Stage) -> None:
    """Repeat the rows that the pilot made, so that they are enough for steps of full size."""
    settings = stage.commands[0].settings or {}
    path, replies = Path(settings["train_data"]), int(settings.get("num_generations", 1))
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    needed = -(-STEPS * road.step_of(settings) // replies)
    if road.output in path.parents and 0 < len(rows) < needed:
        repeated = "".join(rows[number % len(rows)] for number in range(needed))
        with writing_file(path):
            write_atomically(path, repeated)


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
    table = Table("stage", "work", title="pilot", title_justify="left")
    for head in ("s", "working", "each", "CPU s", "GB", "GPU GB", "tokens", "MB written"):
        table.add_column(head, justify="right")
    for name, row in found.items():
        took, unit = [Took(**each) for each in row["took"]], STAGES[name.partition("-")[0]]["unit"]
        seconds, working = sum(each.seconds for each in took), sum(each.working for each in took)
        work = sum(each or 0 for each in row["work"])
        each = working / work if unit and work else 0.0
        numbers = (seconds, working, each, sum(one.cpu_seconds for one in took))
        most = (max(one.memory for one in took) / 1e9, max(one.gpu_memory for one in took) / 1e9)
        texts = (*(f"{number:,.1f}" for number in (*numbers, *most)), f"{sum(row.get('tokens', ())):,.0f}")
        table.add_row(name, f"{work:,.3g} {unit}" if unit else "", *texts, f"{row['bytes'] / 1e6:,.0f}")
    Console().print(table)
