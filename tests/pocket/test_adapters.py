"""The shipped adapters of the pocket model, agents and planners, in runs of their methods."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from videopro.commands import infer
from videopro.pocket import AGENTS, PLANNERS
from videopro.traces import Step, Trace, read_traces

SHORT = ("color", "count")


def run(folder: Path, method: str, *settings: str, kinds: Sequence[str] = SHORT) -> list[Trace]:
    """The traces of these questions, in their order."""
    ids = [f"val_short_000_{kind}" for kind in kinds]
    words = ["--benchmark", "pocket", "--split", "val", "--model", "pocket", "--workers", "1"]
    words += ["--method", method, "--ids", *ids, "--output", str(folder), *settings]
    assert infer.main(words) == 0
    traces = {trace.question_id: trace for trace in read_traces(folder / "traces.jsonl")}
    assert traces.keys() == set(ids)
    return [traces[id] for id in ids]


def steps(traces: list[Trace]) -> list[Step]:
    done = [part.execution for trace in traces for part in trace.rounds]
    return [step for execution in done if execution is not None for step in execution.steps]


@pytest.mark.long
def test_vca_runs_on_its_adapter(tmp_path: Path) -> None:
    """Its first replies are in the method's form. Later ones are not always (RECORD.md)."""
    options = ["--options", "preset=equal", "temperature=0", "max_new_tokens=320", "max_rounds=2"]
    traces = run(tmp_path / "run", "vca", "--backbone", "adapter=pocket-vca", *options)
    first = [step for step in steps(traces) if step.round == 0 and step.kind in ("reward", "explore")]
    assert sum(step.kind == "reward" for step in first) == len(SHORT)
    assert not any(step.is_unparsed for step in first)


def test_lvagent_runs_on_its_adapters(tmp_path: Path) -> None:
    """Three agents answer, and whoever discusses gives scores in the method's form."""
    names = ",".join(f"pocket+{name}" for name in AGENTS if name.startswith("pocket-lv"))
    options = ["--options", "preset=equal", f"agents=[{names}]", "max_new_tokens=64"]
    traces = run(tmp_path / "run", "lvagent", *options)
    taken = steps(traces)
    assert sum(step.kind == "answer" and step.round == 0 for step in taken) == 3 * len(SHORT)
    assert not any(step.is_unparsed for step in taken)
    assert all(trace.final is not None and trace.final.letter is not None for trace in traces)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "pocket-sft" else pytest.mark.long) for name in PLANNERS]
)
def test_shipped_planners_write_programs_that_run(name: str, tmp_path: Path) -> None:
    """One look for the weather, a program for the rest, and every one runs to an answer."""
    options = ["--backbone", f"adapter={name}", "--options", "temperature=0"]
    traces = run(tmp_path / "run", "adaptive", *options, kinds=("weather", "narration"))
    plans = [trace.rounds[0] for trace in traces]
    assert [(plan.mode, plan.faults) for plan in plans] == [("native", ()), ("program", ())]
    assert [plan.execution.status for plan in plans if plan.execution is not None] == ["ok", "ok"]
