"""Lines of another run, or of a later version, in a run's traces: every reader of the run refuses them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_world import direct_round, trace, write_run
from videopro.benchmarks.mmbench_video import JUDGE
from videopro.commands import compare, seeds
from videopro.errors import RunError
from videopro.report import reading
from videopro.report.pages.site import write_pages
from videopro.runs import JudgeConfig, RunFolder, RunTail, SubmitConfig, judge_run, recorded_protocol, submit
from videopro.traces import SCHEMA, Trace


def follow_once(run: Path) -> None:
    """What served pages and the trackers read."""
    RunTail(RunFolder(run), recorded_protocol(RunFolder(run))).refresh()


READERS: dict[str, Callable[[Path], object]] = {
    "report": reading.read_run,
    "seeds": seeds._traces,
    "view": lambda run: write_pages(run, run.parent / "pages", max_frames=2),
    "following": follow_once,
    "submit": lambda run: submit(SubmitConfig(run, run.parent / "answers.json")),
    "judge": lambda run: judge_run(JudgeConfig(run, "m")),
    "compare": compare.read_comparison_run,
}


def confident_trace(number: int, **changes: Any) -> Trace:
    return trace(number, [direct_round("A", 0.9)], **changes)


def written(folder: Path, reader: str) -> Path:
    benchmark = {"submit": "egoschema", "judge": "mmbench_video"}.get(reader, "pocket")
    own = [confident_trace(number) for number in range(3)]
    protocol = {"judge": asdict(JUDGE)} if reader == "judge" else None
    run = write_run(folder, own, benchmark=benchmark, protocol=protocol)
    summary = {"modes": 1, "output": 1, "method": "native", "settings": 1, "model": "org/tiny"}
    summary["run_key"] = RunFolder(run).key()
    (run / "summary.json").write_text(json.dumps(summary))
    return run


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_them(tmp_path: Path, reader: str) -> None:
    read = READERS[reader]
    run = written(tmp_path / "run", reader)
    if reader != "judge":
        read(run)
    whole = (run / "traces.jsonl").read_bytes()
    for change, message in (
        ({"run_key": "another"}, "line 4 is of another run"),
        ({"schema": SCHEMA + 1}, "line 4: written by a later version"),
    ):
        mixed = whole + confident_trace(7, **change).to_line()
        (run / "traces.jsonl").write_bytes(mixed)
        with pytest.raises(RunError, match=rf"run/traces\.jsonl[:,] {message}"):
            read(run)
        assert (run / "traces.jsonl").read_bytes() == mixed


@pytest.mark.parametrize(("key", "value"), [("model", "another"), ("run_key", "0")])
def test_a_summary_of_another_run_is_not_compared(tmp_path: Path, key: str, value: str) -> None:
    """As was written when a finished run was given with another model."""
    run = written(tmp_path / "run", "compare")
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {key: value}))
    with pytest.raises(RunError, match=rf"summary\.json: belongs to another run \({key} '{value}'"):
        compare.read_comparison_run(run)
