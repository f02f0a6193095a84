"""The shipped adapters that write the replies of agents, in runs of their methods."""

from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from videopro.commands import infer
from videopro.pocket import AGENTS
from videopro.traces import Step, Trace, read_traces

SHORT = [f"val_short_000_{kind}" for kind in ("color", "count")]


def run(folder: Path, method: str, *settings: str) -> list[Trace]:
    words = ["--benchmark", "pocket", "--split", "val", "--model", "pocket", "--workers", "1"]
    words += ["--method", method, "--ids", *SHORT, "--output", str(folder), *settings]
    assert infer.main(words) == 0
    traces = read_traces(folder / "traces.jsonl")
    assert {trace.question_id for trace in traces} == set(SHORT)
    return traces


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
