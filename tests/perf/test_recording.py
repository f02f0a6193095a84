"""Some rows measured anew join the others of a file of results, and never replace all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perf import gpu, grpo, memory
from perf.battery.cases import Bench
from perf.battery.results import table
from perf.battery.shapes import TINY
from perf.gpu import GpuSettings, results_file
from perf.recording import recorded_rows, write_record
from perf.timing import Spent
from tests.stress import kills
from videopro.errors import ConfigError

# As recorded before CPU seconds were: without `cpu_s`.
ROW = {
    "rollouts_per_s": 0.1,
    "step_s": 10.0,
    "sampling_s": 4.0,
    "prefill_s": 1.0,
    "rewards_s": 1.0,
    "update_s": 5.0,
    "prompt_tokens": 300.0,
    "reply_tokens": 100.0,
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The variants that perf/grpo.py measures, which takes no time here."""
    asked: list[str] = []

    def measure(way: str, *_: Any) -> dict[str, float]:
        asked.append(way)
        return {**ROW, "rollouts_per_s": 0.4, "cpu_s": 2.5}

    monkeypatch.setattr(grpo, "measure", measure)
    monkeypatch.setattr(grpo, "make_rows", lambda *_: [])
    monkeypatch.setattr(grpo, "cut_frames", lambda *_: Spent(1.0, 0.5))
    return asked


def words(output: Path, *more: str) -> list[str]:
    return ["--adapter", "runs/sft", "--data", "grpo.jsonl", "--output", str(output), *more]


def test_grpo_only_keeps_the_other_variants(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "grpo.json"
    assert grpo.main(words(path)) == 0
    assert measured == [*grpo.WAYS, *reversed(grpo.WAYS)]
    whole = json.loads(path.read_text())
    assert whole["cutting_frames_cpu_s"] == 0.5
    for way in ("plain", "ours + run_ahead"):
        whole["ways"][way] = ROW
    path.write_text(json.dumps(whole))
    measured.clear()
    capsys.readouterr()
    assert grpo.main(words(path, "--only", "ours", "ours, switches off")) == 0
    assert measured == ["ours", "ours, switches off", "ours, switches off", "ours"]
    merged = json.loads(path.read_text())
    assert list(merged["ways"]) == list(grpo.WAYS)
    assert merged["ways"]["plain"] == merged["ways"]["ours + run_ahead"] == ROW
    assert merged["ways"]["ours"]["cpu_s"] == 2.5
    # The ceiling is plain's, of 10 s a rollout: see test_ceiling.
    assert merged["ceiling"]["share of rewards"] == pytest.approx(0.1)
    lines = capsys.readouterr().out.splitlines()
    cells = {name: line[28:].split() for line in lines for name in grpo.WAYS if line[:28].strip() == name}
    assert cells["plain"][-4:] == ["-", "300", "+", "100"]
    assert cells["ours"][-4:] == ["2.500", "300", "+", "100"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--only", "ours", "--group", "4"), "was recorded with group 8, and this is 4"),
        (("--only", "our"), "unknown variant 'our'; did you mean 'ours'?"),
        (("--steps", "1"), "--steps must be at least 2"),
    ],
)
def test_rows_that_cannot_be_compared_are_not_mixed(
    more: tuple[str, ...],
    message: str,
    measured: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "grpo.json"
    assert grpo.main(words(path)) == 0
    before = path.read_bytes()
    measured.clear()
    assert grpo.main(words(path, *more)) == 2
    assert message in capsys.readouterr().err
    assert measured == []
    assert path.read_bytes() == before


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    assert recorded_rows(tmp_path / "none.json", "ways", {"group": 8}) == {}
    for text in ("{", '{"parts": {}}', "[]", '{"ways": 3}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(ConfigError, match="has no results of this script"):
            recorded_rows(tmp_path / "other.json", "ways", {})


def test_kills_of_one_command_leave_the_others(tmp_path: Path) -> None:
    path = tmp_path / "kills.json"
    # A command's results as recorded before CPU seconds were.
    others = {"trials": 7, "equal": 6, "kills": [{"phase": "work"}, {"phase": "end"}], "whole_seconds": 40.2}
    write_record(path, {"commands": {"infer": others, "sft": {**others, "trials": 99}}})
    given = kills.COMMAND.parse(["--json", str(path), "--only", "sft", "--kills", "sft=5"])
    assert (given.output, given.only, given.kills) == (path, ("sft",), {"sft": 5})
    kill = kills.Kill(1, "start", 0, 0.5)
    outcome = kills.KillResults("equal", 20.0, 31.5, kills=[kill], trials=2, equal=2)
    kills.record(given, {"sft": outcome})
    found = json.loads(path.read_text())
    assert found["commands"]["infer"] == others
    assert found["commands"]["sft"]["trials"] == 2
    assert found["commands"]["sft"]["whole_cpu_s"] == 31.5
    assert (found["kills"], found["trials"], found["equal"]) == (3, 9, 8)
    assert found["by phase"] == {"work": 1, "end": 1, "start": 1}


def test_memory_adds_its_legs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("rss_mib", "used_mib", "free_mib", "store_mib", "questions", "calls", "children_mib")
    sample = dict.fromkeys(names, 70.0)
    monkeypatch.setattr(
        memory,
        "call_in_child",
        lambda *_, **__: {"start": sample, "samples": [sample, sample], "emptied": sample},
    )
    path = tmp_path / "memory.json"
    write_record(path, {"results": {"512 MiB": {"questions": 3}, "64 MiB": {"questions": 4}}})
    assert memory.main(["--store", "64", "128", "--output", str(path)]) == 0
    rows = json.loads(path.read_text())["results"]
    assert list(rows) == ["512 MiB", "64 MiB", "128 MiB"]
    assert rows["512 MiB"] == {"questions": 3}
    assert rows["64 MiB"]["peak_mib"] == 70.0
    assert rows["64 MiB"]["cpu_s"] >= 0


def test_some_parts_of_another_gpu_replace_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(TINY, tmp_path / "work")
    path = tmp_path / "gpu.json"
    write_record(path, {"shapes": "tiny", "facts": {"device": "X"}, "parts": {"a": {}}})
    of_x, of_y = {"device": "X"}, {"device": "Y"}
    asked = GpuSettings(output=path)
    assert results_file(asked, bench, of_x, ["a"]) == path
    assert results_file(asked, bench, of_y, list(gpu.MODULES)) == path
    with pytest.raises(ConfigError, match=r"gpu\.json: holds results of another device"):
        results_file(asked, bench, of_y, ["a"])
    assert results_file(GpuSettings(), bench, of_y, ["a"]) == bench.folder / "results.json"
    # Without --output, a recorded file stays as it is.
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setattr(gpu, "on_gpu", lambda: True)
    (tmp_path / "perf").mkdir()
    path.rename(tmp_path / "perf" / "gpu.json")
    large = Bench(gpu.SHAPES["8b"], tmp_path / "work")
    assert results_file(GpuSettings(), large, of_y, ["a"]) == large.folder / "results.json"
    assert results_file(GpuSettings(), large, of_y, list(gpu.MODULES)) == tmp_path / "perf" / "gpu.json"


def test_the_gpu_tables_have_cpu_seconds_where_they_were_recorded() -> None:
    old = {"figures": {"step_s": 1.5}, "seconds": 20.0}
    new = {"figures": {"step_s": 1.25}, "seconds": 21.0, "cpu_s": 40.0}
    assert "| batch 1 | 1.5 |" in table("SFT", {"batch 1": old}).splitlines()
    lines = table("SFT", {"batch 1": old, "batch 2": new}).splitlines()
    assert "|  | step s | whole case s | CPU s |" in lines
    assert "| batch 1 | 1.5 | 20.0 | - |" in lines
    assert "| batch 2 | 1.25 | 21.0 | 40.0 |" in lines
