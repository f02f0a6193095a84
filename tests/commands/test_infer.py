"""Runs: their settings, what they record, which questions they ask and which subtitles they show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.colours import check_complete, flags, load_fake
from tests.support.colours import root as root
from videopro.backbones import read_spec
from videopro.benchmarks import load
from videopro.commands.infer import COMMAND, main
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.traces import read_traces


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs" / "infer").glob("*.yaml")), ids=lambda path: path.name
)
def test_shipped_settings(path: Path) -> None:
    """Every file in configs/infer has known keys of the right types, down to the method and the backbone."""
    config = COMMAND.parse(["--config", str(path), "--output", "x"])
    create(config.method, config.options)
    if config.model != "pocket":
        read_spec(config.model, **config.backbone)


def test_a_run_and_what_it_records(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "deep" / "run"
    assert main(flags(root, output, "--options", "frames=3"), load=load_fake) == 0
    traces = {trace.question_id: trace for trace in check_complete(output)}
    # Colours from pixels, so every answer is the right one; two of three golds are stated rightly.
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["unparsed"], summary["coverage"]) == (12, 0, 1.0)
    assert summary["accuracy"] == summary["official_accuracy"] == pytest.approx(8 / 12)
    low, high = summary["accuracy_ci95"]
    assert low <= 8 / 12 <= high
    families = {name: (row["n"], row["accuracy"]) for name, row in summary["groups"]["family"].items()}
    assert families == {"even": (8, 0.5), "odd": (4, 1.0)}
    assert {name: row["n"] for name, row in summary["groups"]["duration"].items()} == {"short": 6, "long": 6}
    assert summary["seconds_per_question"] > 0

    trace = traces["v2q1"]
    assert trace.video.path == str(root / "videos/v2.mp4")
    assert trace.video.duration == pytest.approx(2.0)
    assert trace.video.id
    assert trace.choices == ("green", "blue", "grey", "red")
    assert trace.gold == "B"
    assert trace.final is not None
    assert (trace.final.letter, trace.final.confidence, trace.official) == ("B", 0.9, "B")
    assert trace.final == trace.first
    (attempt,) = trace.rounds
    assert attempt.execution is not None
    # Midpoints of three equal parts of 2 s: 1/3, 1 and 5/3 s; on display then: frames of 2/8, 8/8, 13/8 s.
    assert attempt.execution.calls[0].frames == ((0.25, 24, 32), (1.0, 24, 32), (1.625, 24, 32))
    total = [sum(getattr(t.cost, name) for t in traces.values()) for name in ("frames", "calls", "tokens_in")]
    assert total == pytest.approx([4 * 3, 12, 12 * 103])

    shown = capsys.readouterr().out
    assert "66.7" in shown
    assert str(output) in shown
    assert not (output / "work" / "leases").exists()


def test_config_file_makes_the_same_run(root: Path, tmp_path: Path) -> None:
    """What a run wrote as config.yaml starts it again; a flag overrides the file."""
    first = tmp_path / "first"
    assert main(flags(root, first, "--limit", "2", "--seed", "3"), load=load_fake) == 0
    config = first / "config.yaml"
    assert main(["--config", str(config), "--output", str(tmp_path / "second")], load=load_fake) == 0

    def made(name: str) -> tuple[object, list[str]]:
        settings = yaml.safe_load((tmp_path / name / "config.yaml").read_text())
        return settings["run_key"], [t.question_id for t in read_traces(tmp_path / name / "traces.jsonl")]

    assert made("first") == made("second")


def test_limits_are_prefixes_of_each_other(root: Path) -> None:
    benchmark = load("jsonl", root=root)
    for seed in range(3):
        whole = [item.id for item in benchmark.select(limit=12, seed=seed)]
        assert sorted(whole) == sorted(item.id for item in benchmark.items)
        for limit in range(1, 12):
            assert [item.id for item in benchmark.select(limit=limit, seed=seed)] == whole[:limit]
        # Two of the videos are short and two are long: the first six questions are about one of each.
        assert {item.groups["duration"] for item in benchmark.select(limit=6, seed=seed)} == {"short", "long"}
    assert len({tuple(item.id for item in benchmark.select(limit=3, seed=seed)) for seed in range(8)}) > 2


def test_shares_and_offsets_are_parts_of_the_same_order(root: Path) -> None:
    benchmark = load("jsonl", root=root)
    whole = benchmark.select(limit=12, seed=1)
    assert benchmark.select(limit=0.25, seed=1) == whole[:3]
    assert benchmark.select(limit=0.26, seed=1) == whole[:4], "rounded up"
    assert benchmark.select(limit=1.0, seed=1) == whole[:1], "a number, not a share"
    parts = [benchmark.select(limit=5, offset=offset, seed=1) for offset in (0, 5, 10)]
    assert [item for part in parts for item in part] == whole
    assert benchmark.select(offset=10, seed=1) == whole[10:]
    for offset in (-1, 12):
        with pytest.raises(ConfigError, match=f"offset is {offset}; it must be at least 0 and below 12"):
            benchmark.select(offset=offset)
    with pytest.raises(ConfigError, match=r"limit is 1\.5; give a whole number"):
        benchmark.select(limit=1.5)
