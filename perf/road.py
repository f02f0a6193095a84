"""What `videopro reproduce --plan` expects of the shipped roads, with annotations and nothing else at hand.

    python -m perf.road [--output perf/road.json]

CG-Bench's annotations are of its shape, made as by `perf.training_data`; the sizes of the four test sets are
those that were published. The estimates are the command's own; nothing is loaded, asked or spent.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from videopro.commands.reproduce.expected import expected_of_synthesis

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from perf.training_data import write_files
from videopro.cli import setting
from videopro.commands.reproduce.command import COMMAND as REPRODUCE
from videopro.commands.reproduce.estimates import Estimate, estimates
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road

RECORD = "perf/road.json"
GPUS = {"paper": 8, "one-gpu": 1}
"""The configs, and the GPUs of the machine that each is for."""


@dataclass(frozen=True)
class RoadSettings:
    """Record what the shipped roads are expected to take."""

    output: Path = field(default=ROOT / RECORD, metadata=setting("JSON file for the record"))


def shipped(name: str, data: Path = Path("data"), **synthesize: Any) -> Road:
    """The road of a shipped config on its machine."""
    config = REPRODUCE.parse(["--config", name])
    changed = {**config.synthesize, **synthesize}
    return Road(replace(config, data=data, synthesize=changed), [*map(str, range(GPUS[name]))])


def expected_stages(road: Road, rows: Mapping[str, int], synthesis: Estimate) -> list[dict[str, Any]]:
    """What each stage is expected to take, if the synthesis gives these rows."""
    stages = stages_of(road)
    takes = estimates(road, stages, rows) | {"synthesize": synthesis}
    return [{"stage": stage.name, **asdict(takes[stage.name])} for stage in stages]


def plan(folder: Path, name: str) -> dict[str, Any]:
    """The plan of a shipped config, with annotations of CG-Bench's shape in `folder`."""
    road = shipped(name, folder, exclude=[f"lvbench/test:{folder / 'lvbench'}"])
    expected = expected_of_synthesis(road, stages_of(road))
    assert expected is not None
    return {
        "gpus": road.gpus,
        "rows": dict(expected.rows),
        # On a machine that has nothing yet.
        "stages": expected_stages(shipped(name, folder / "data"), expected.rows, expected.takes),
    }


def record(request: RoadSettings) -> None:
    """Plan, record and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder)
        (folder / "cg").rename(folder / "cg_bench")
        plans = {name: plan(folder, name) for name in GPUS}
    write_record(request.output, plans)
    print_tables(RECORD, plans)


if __name__ == "__main__":
    run_command(RoadSettings, record, "stopped")
