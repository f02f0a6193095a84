"""Every method answers questions of the pocket world with the served model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live_engine import Engine
from videopro.commands.infer import main
from videopro.pocket import adapter_dir
from videopro.runs import RunFolder

pytestmark = pytest.mark.live

PLANNER = "pocket-sft"
# Of two kinds, about one short video.
LIMIT = 3


def infer(engine: Engine, output: Path, method: str, *more: str) -> dict[str, Any]:
    """A run on the command line; its summary."""
    status = main(
        [
            *("--benchmark", "pocket", "--split", "test", "--limit", str(LIMIT), "--method", method),
            *("--model", f"server:pocket@{engine.url}", "--output", str(output), *more),
        ]
    )
    assert status == 0
    summary: dict[str, Any] = json.loads((output / "summary.json").read_text())
    assert summary["questions"] == LIMIT
    assert summary["errors"] == {}
    return summary


def test_native(engine: Engine, tmp_path: Path) -> None:
    # Nothing to warn of.
    assert infer(engine, tmp_path / "run", "native")["notes"] == {}


@pytest.mark.parametrize("method", ["program", "adaptive", "videopro"])
def test_programs_by_a_served_planner(engine: Engine, tmp_path: Path, method: str) -> None:
    """The base under its own name answers inside the programs; the planner is asked as its record says."""
    engine.load_adapter(PLANNER, adapter_dir(PLANNER))
    output = tmp_path / "run"
    planner = f"server:{PLANNER}@{engine.url}"
    summary = infer(engine, output, method, "--planner", planner, "--options", "temperature=0")
    assert summary["notes"] == {}
    recorded = RunFolder(output).recorded_identity()
    planner_settings = [recorded["method"][f"planner_{name}"] for name in ("prompt", "frames", "pixels")]
    assert planner_settings == ["short", 16, 15_360]
    # A planner that was asked in another way than it was trained writes no programs that run.
    rounds = [round for trace in RunFolder(output).read() for round in trace.rounds]
    ran = [round.execution for round in rounds if round.execution is not None]
    assert sum(execution.status == "ok" for execution in ran) >= LIMIT


@pytest.mark.parametrize("method", ["videoagent", "dvd", "vca", "lvagent"])
def test_agents(engine: Engine, tmp_path: Path, method: str) -> None:
    """VCA explores with its shipped adapter, and LVAgent's agents are three of them."""
    options = ["max_new_tokens=48"]
    if method == "vca":
        engine.load_adapter("pocket-vca", adapter_dir("pocket-vca"))
        options += ["temperature=0", "max_rounds=2", f"llm=server:pocket-vca@{engine.url}"]
    if method == "lvagent":
        names = ["pocket-lv-looks", "pocket-lv-times", "pocket-lv-words"]
        for name in names:
            engine.load_adapter(name, adapter_dir(name))
        options += [f"agents=[{','.join(f'server:{name}@{engine.url}' for name in names)}]"]
    infer(engine, tmp_path / "run", method, "--preset", "equal", "--options", *options)
