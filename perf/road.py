"""What `videopro reproduce --plan` expects of the shipped roads, with annotations and nothing else at hand.

    python -m perf.road [--output perf/road.json]

CG-Bench's annotations are of its shape, made as by `perf.training_data`; the sizes of the four test sets are
those that were published. The estimates are the command's own; nothing is loaded, asked or spent. "before"
stays as it was recorded at commit eff7a47a.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from perf.training_data import write_files
from videopro.cli import setting
from videopro.commands.reproduce.command import COMMAND as REPRODUCE
from videopro.commands.reproduce.estimates import Plan, Work, estimate, plan_of_synthesis
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road

RECORD = "perf/road.json"
GPUS = {"paper": 8, "one-gpu": 1, "api-teacher": 1, "no-teacher": 8}
"""The configs, and the GPUs of the machine that each is for."""


@dataclass(frozen=True)
class RoadSettings:
    """Record what the shipped roads are expected to take."""

    output: Path = field(default=ROOT / RECORD, metadata=setting("JSON file for the record"))


def shipped(name: str, data: Path = Path("data"), **synthesize: Any) -> Road:
    """The road of a shipped config on its machine."""
    config = REPRODUCE.parse(["--config", name])
    if name == "api-teacher":
        synthesize = {"teacher": "api:MODEL@http://HOST:8000/v1", **synthesize}
    changed = {**config.synthesize, **synthesize}
    return Road(replace(config, data=data, synthesize=changed), [*map(str, range(GPUS[name]))])


def plan(folder: Path, name: str) -> dict[str, Any]:
    """The plan of a shipped config, with annotations of CG-Bench's shape in `folder`."""
    counted = shipped(name, folder)
    counted = Road(replace(counted.config, benchmarks=("lvbench",)), counted.devices)
    expected = plan_of_synthesis(counted, stages_of(counted))
    assert expected is not None
    # On a machine that has nothing yet.
    road = shipped(name, folder / "data")
    used = ("questions", "videos", "rows", "sides", "teacher", "hours")
    plan = {key: expected[key] for key in used}
    return {"gpus": road.gpus, "synthesis": plan, "stages": expected_stages(road, plan)}


def expected_stages(road: Road, plan: Plan) -> list[dict[str, Any]]:
    """What each stage is expected to take, if this is the plan of the synthesis."""
    rows = [{"stage": each.name, **asdict(estimate(Work(road, plan), each))} for each in stages_of(road)]
    return list(json.loads(json.dumps(rows)))


def record(request: RoadSettings) -> None:
    """Plan, record and print."""
    before = json.loads((ROOT / RECORD).read_text(encoding="utf-8"))["before"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder)
        (folder / "cg").rename(folder / "cg_bench")
        plans = {name: plan(folder, name) for name in GPUS}
    plans = {"before": before, **plans}
    write_record(request.output, plans)
    print_tables(RECORD, plans)


if __name__ == "__main__":
    run_command(RoadSettings, record, "stopped")
