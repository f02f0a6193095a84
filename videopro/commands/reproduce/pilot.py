"""The pilot of a reproduction: a few rows through every stage, to measure what all of them will take.

It runs in OUTPUT/pilot with a cache of its own, on the same machine, models and modules. What it downloads
and unpacks first is not done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from videopro.commands.doctor import bytes_in, size
from videopro.commands.reproduce.estimates import Measured, Work, duration, number, plan_of_synthesis
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record, memory, run_stages, write_settings
from videopro.commands.reproduce.stages import FILES, STAGES, TRAININGS, Stage
from videopro.storage import write_file

STEPS = 4
"""Steps of each training; the first one also allocates and compiles."""


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
    """What the pilot of a road measured on as many GPUs, whatever number of rows it had: of its stages, those
    that would have the same settings now."""
    path = road.output / "pilot" / "pilot.json"
    if not path.exists():
        return Measured()
    found = Measured(**json.loads(path.read_text()))
    if (found.gpus, found.processes) != (road.gpus, road.processes):
        return Measured()
    keys = {each.name: each.key for each in stages_of(pilot_of(road, found.rows))}
    same = {name: row for name, row in found.stages.items() if row["commands"] == keys.get(name)}
    return replace(found, stages=same)


def run_pilot(road: Road, stages: Sequence[Stage]) -> None:
    """Run the pilot of a road's stages, and write what those that are finished took."""
    few = pilot_of(road, road.config.pilot_rows)
    all_few, record = stages_of(few), Record(few.output)
    waiting = [each for each in all_few if each.name in {stage.name for stage in stages}]
    work = Work(few, plan_of_synthesis(few, all_few))
    cache = (few.output / "cache").absolute()
    os.environ["VIDEOPRO_CACHE"] = str(cache)
    write_settings(all_few)
    for stage in waiting:
        if stage.kind in TRAININGS:
            _fill(few, stage)
        if stage.kind not in FILES:
            run_stages([stage], few.output)
    found = {
        stage.name: {
            **(record.of(stage) or {}),
            "work": [work.of(stage, command) for command in stage.commands],
            "bytes": sum(bytes_in(path.parent) for path in stage.writes),
            **_gave(few, stage),
        }
        for stage in all_few
        if record.is_done(stage)
    }
    # Of a benchmark without a published size the hours are not known.
    cached = bytes_in(cache) / work.hours if work.hours else 0.0
    measured = Measured(road.config.pilot_rows, found, cached, road.gpus, road.processes)
    write_file(few.output / "pilot.json", json.dumps(asdict(measured), indent=1) + "\n")
    show_pilot(measured)


def show_pilot(measured: Measured) -> None:
    """Print what a pilot's stages took."""
    caption = f"{measured.rows} rows; the cache grows by {size(measured.cached)} for each hour of video."
    table = Table("stage", "worked on", "time", "memory", "of a GPU", "written", "tokens", caption=caption)
    for name, row in measured.stages.items():
        unit, worked = STAGES[name.partition("-")[0]]["unit"], number(sum(filter(None, row["work"])))
        seconds, tokens = sum(each["seconds"] for each in row["took"]), sum(row.get("tokens", ()))
        took, written = memory(row["took"]), size(row["bytes"])
        table.add_row(name, f"{worked} {unit}", duration(seconds), *took, written, number(tokens or None))
    Console().print(table)


def _fill(road: Road, stage: Stage) -> None:
    """Repeat the rows that the pilot made, so that they are enough for steps of full size."""
    settings = stage.commands[0].settings or {}
    path, replies = Path(settings["train_data"]), int(settings.get("num_generations", 1))
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    needed = -(-STEPS * road.step_of(settings) // replies)
    if road.output in path.parents and 0 < len(rows) < needed:
        write_file(path, "".join(rows[number % len(rows)] for number in range(needed)))


def _gave(road: Road, stage: Stage) -> dict[str, Any]:
    """The tokens of a stage that counts them, in and out (of a training: all); of a synthesis, those of its
    teacher, and their cost and the rows that it made."""
    if stage.kind == "synthesize":
        card = json.loads((road.output / "synthesis" / "card.json").read_text())
        used, rows = card["teacher"], {kind: card[kind]["rows"] for kind in TRAININGS}
        return {"tokens": [used["tokens_in"], used["tokens_out"]], "cost": used["cost"], "rows": rows}
    if stage.kind in TRAININGS:
        log = json.loads((road.output / stage.kind / "trainer_state.json").read_text())["log_history"]
        return {"tokens": [max(each.get("num_tokens", 0) for each in log)]}
    costs = [json.loads(path.read_text())["cost"] for path in stage.writes if stage.kind == "infer"]
    return {"tokens": [sum(each[name] for each in costs) for name in ("tokens_in", "tokens_out")]}
