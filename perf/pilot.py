"""What the pilot of a reproduction expects of the miniature's stages, beside what they took.

    bash launch/miniature.sh FOLDER pilot
    python -m perf.pilot --folder FOLDER [--output perf/pilot.json]

The first command makes the miniature, runs its pilot (eight rows) and then all stages on up to five times as
many, as the miniature has them, on this machine. The second compares the plan by the pilot's figures with
what each stage took.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting
from videopro.commands.reproduce.command import COMMAND as REPRODUCE
from videopro.commands.reproduce.estimates import Work, estimate, plan_of_synthesis
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.pilot import read_pilot
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record

RECORD = "perf/pilot.json"


@dataclass(frozen=True)
class PilotSettings:
    """Compare a pilot's plan with what the stages took."""

    folder: Path = field(metadata=setting("folder of bash launch/miniature.sh FOLDER pilot"))
    output: Path = field(default=ROOT / RECORD, metadata=setting("JSON file for the record"))


def compared(folder: Path) -> dict[str, Any]:
    """The rows of the pilot and of the whole, and the seconds expected and taken, by stage."""
    port = (folder / "port").read_text().strip()
    flags = ["--config", "miniature", "--data", str(folder / "data"), "--output", str(folder / "whole")]
    flags += ["--synthesize", f"teacher=api:narrator-1@http://127.0.0.1:{port}/v1", "--limit", "10"]
    flags += ["--sft-settings", "max_steps=20", "--grpo-settings", "max_steps=20"]
    road = Road(REPRODUCE.parse(flags), [])
    measured = read_pilot(road)
    # As before the walk, whose answers a plan would also rest on.
    new = Road(replace(road.config, output=folder / "none"), [])
    work = Work(road, plan_of_synthesis(new, stages_of(new)), measured)
    rows = {}
    for stage in stages_of(road):
        if stage.name not in measured.stages:
            continue
        takes = estimate(work, stage)
        assert takes.seconds is not None
        rows[stage.name] = {
            "pilot": sum(measured.stages[stage.name]["work"]),
            "whole": sum(work.of(stage, command) or 0 for command in stage.commands),
            "expected": takes.seconds,
            "took": sum(each["seconds"] for each in (Record(road.output).of(stage) or {})["took"]),
        }
    return rows


def record(request: PilotSettings) -> None:
    """Compare, record and print."""
    os.environ.update(HF_HOME=str(request.folder / "hub"), HF_HUB_OFFLINE="1")
    os.environ["VIDEOPRO_CACHE"] = str(request.folder / "cache")
    pilot = json.loads((request.folder / "whole/pilot/pilot.json").read_text())["stages"]
    for stage in pilot.values():
        stage.pop("commands")  # paths of this machine
    made = {"cores": os.cpu_count(), "stages": compared(request.folder), "pilot": pilot}
    write_record(request.output, made)
    print_tables(RECORD, made)


if __name__ == "__main__":
    run_command(PilotSettings, record, "stopped")
