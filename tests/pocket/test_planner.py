"""The shipped planners: adapters of the pocket model, by their short names."""

from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from videopro.commands import infer
from videopro.pocket import PLANNERS
from videopro.traces import read_traces

SHORT = [f"val_short_000_{kind}" for kind in ("weather", "narration")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "pocket-sft" else pytest.mark.long) for name in PLANNERS]
)
def test_shipped_planners_write_programs_that_run(name: str, tmp_path: Path) -> None:
    """One look for the weather, a program for the rest, and every one runs to an answer."""
    words = ["--benchmark", "pocket", "--split", "val", "--model", "pocket", "--method", "adaptive"]
    words += ["--backbone", f"adapter={name}", "--options", "temperature=0", "--workers", "1"]
    assert infer.main([*words, "--ids", *SHORT, "--output", str(tmp_path / "run")]) == 0
    traces = {trace.question_id: trace for trace in read_traces(tmp_path / "run" / "traces.jsonl")}
    assert traces.keys() == set(SHORT)
    for question, trace in traces.items():
        plan = trace.rounds[0]
        assert plan.faults == ()
        assert plan.mode == ("native" if "weather" in question else "program")
        assert plan.execution is not None
        assert plan.execution.status == "ok"
