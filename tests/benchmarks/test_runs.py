"""Official benchmarks through the command lines: a run with gaps, check, several under one name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.adapting import adapted
from tests.support.benchmark_runs import coloured, infer
from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_world import MME, TSV, ego, touch, write_parquet
from tests.support.fakes import load_fake
from tests.support.paper_folders import paper_folders
from videopro.benchmarks.protocol import ROBUST, Protocol
from videopro.commands import compare
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.commands.infer import main
from videopro.commands.report import main as report_main
from videopro.errors import ConfigError
from videopro.methods import METHODS


def test_a_run_with_a_third_of_its_videos_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, log = tmp_path / "lvb", tmp_path / "asked"
    coloured(root)
    flags = ["--benchmark", "longvideobench", "--backbone", f"log={log}"]
    assert infer(root, tmp_path / "run", *flags) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["split"], summary["protocol"]) == ("val", "subtitles")
    assert summary["subtitles"] == "interleaved"
    assert (summary["n"], summary["accuracy"], summary["official_accuracy"]) == (2, 1.0, 1.0)
    assert summary["coverage"] == pytest.approx(2 / 3)
    assert summary["errors"] == {"VideoError": 1}
    # Frames of 2 s at 0 and 1 s, one a second: the line from 0.1 to 0.2 s is widened to -0.35 to 0.65 s and
    # stands before the second frame, not in the prompt. The last line begins with that frame, so it is not
    # spoken at it.
    asked = log.read_text()
    assert '"hello\\nQuestion: What happens then (1)?\\nA. red' in asked
    assert '"Question: What happens then (2)?' in asked
    assert not any(words in asked for words in ("widened", "to the end", "before the video"))
    assert "66.7 % of the videos" in capsys.readouterr().out
    # Another protocol is another run.
    assert infer(root, tmp_path / "run", *flags, "--protocol", "no_subtitles") == 2
    error = capsys.readouterr().err
    assert "protocol.subtitles: the run has 'interleaved', this command 'none'" in error


def test_a_run_without_subtitles_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "lvb"
    coloured(root)
    for path in (root / "subtitles").iterdir():
        path.unlink()
    (root / "subtitles").rmdir()
    assert infer(root, tmp_path / "none", "--benchmark", "longvideobench") == 2
    assert "needs subtitles, but" in capsys.readouterr().err
    flags = ["--benchmark", "longvideobench", "--protocol", "videopro"]
    assert infer(root, tmp_path / "run", *flags, "--options", "subtitles=all") == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["notes"] == {"no subtitles listed": 2}
    assert infer(root, tmp_path / "off", *flags[:2], "--protocol", "no_subtitles") == 0
    assert json.loads((tmp_path / "off/summary.json").read_text())["subtitles"] == "none, by the protocol"


def test_native_follows_the_protocol() -> None:
    shows, without = Protocol(ROBUST, subtitles="frames"), Protocol(ROBUST, name="bare", subtitles="none")
    assert adapted("native", {"frames": 3}, protocol=shows).options == {"frames": 3, "subtitles": "frames"}
    assert adapted("native", {"subtitles": "none"}, protocol=shows).options == {"subtitles": "none"}
    assert adapted("native").options == {}
    with pytest.raises(ConfigError, match="protocol 'bare' has none"):
        adapted("native", {"subtitles": "all"}, protocol=without)


def test_only_native_follows_a_protocol_that_shows_the_clue_alone() -> None:
    clue = Protocol(ROBUST, name="clue", shown="clues")
    assert adapted("native", {"frames": 3}, protocol=clue).options == {"frames": 3}
    options = {"lvagent": {"agents": ("a", "b")}}
    for name in sorted(METHODS.keys() - {"native"}):
        with pytest.raises(ConfigError, match=f"method '{name}' looks anywhere .* 'clue' .*--method native"):
            adapted(name, options.get(name), protocol=clue)


def test_a_method_that_only_chooses_refuses_open_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "MMBench-Video.tsv").write_text(TSV)
    flags = ["--benchmark", "mmbench_video", "--method", "lvagent", "--options", "agents=[a, b]"]
    assert infer(tmp_path, tmp_path / "run", *flags) == 2
    assert "4 of these questions are open" in capsys.readouterr().err


# ---- check ------------------------------------------------------------------------------------------------


def test_check_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet(tmp_path / "videomme/test-00000-of-00001.parquet", [*MME, {**MME[0], "answer": "X"}])
    touch(tmp_path, "data/video-id_01.mp4", "data/video-id_02.mp4", "videos_chunked_01.zip")
    touch(tmp_path, "subtitle/video-id_01.srt")
    (tmp_path / "data/video-id_03.mp4").write_bytes(b"")
    flags = ["check", "videomme", "--root", str(tmp_path), "--protocol", "subtitles"]
    assert benchmarks_main(flags) == 2
    output = capsys.readouterr().out
    assert "questions: 4" in output
    assert "broken records: 1" in output
    assert "'X' is not an option" in output
    assert "videos: 2 of 4 found" in output
    assert "missing: video-id_03, video-id_04; 2 questions" in output
    assert f"unzip -n {tmp_path}/videos_chunked_01.zip -d {tmp_path}/data" in output
    assert "subtitles: 1 of 4 videos have them" in output
    assert "duration: long 3, short 1" in output
    # With --open, a file that only looks like a video is detected.
    assert benchmarks_main([*flags, "--open"]) == 2
    assert "video-id_01.mp4" in capsys.readouterr().out


def test_check_of_a_whole_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ego(tmp_path)
    assert benchmarks_main(["check", "egoschema", "--root", str(tmp_path), "--split", "full"]) == 0
    output = capsys.readouterr().out
    assert "questions: 3 (3 without a known answer)" in output
    assert output.endswith("complete\n")
    assert benchmarks_main(["check", "egoschem", "--root", str(tmp_path)]) == 2
    assert "did you mean 'egoschema'" in capsys.readouterr().err


# ---- several benchmarks under one name -------------------------------------------------------------------


def test_the_papers_protocol_is_one_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four run, 64 frames a call, and their folders give Table 1: all right but MLVU's question, whose
    video is red and whose gold grey."""
    paper_folders(tmp_path / "data")
    frames: list[Any] = []

    def load(model: str, **settings: Any) -> Any:
        frames.append(settings.pop("frames"))
        return load_fake(model, **settings)

    argv = ["--benchmark", "videopro", "--root", str(tmp_path / "data"), "--model", "m"]
    assert main([*argv, "--output", str(tmp_path / "runs")], load=load) == 0, capsys.readouterr().err
    assert frames == [64] * 4
    names = ["lvbench", "longvideobench", "mlvu", "videomme"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(names)
    for name in names:
        recorded = yaml.safe_load((tmp_path / "runs" / name / "config.yaml").read_text())
        assert recorded["identity"]["protocol"]["name"] == "videopro"
        assert recorded["identity"]["protocol"]["benchmark"] == name
    assert report_main([str(tmp_path / "runs"), "--tables", "main", "--output", str(tmp_path / "r")]) == 0
    (row,) = csv.DictReader((tmp_path / "r/tables/main.csv").open())
    right = {head: float(value) for head, value in row.items() if head and "," not in head and value}
    assert right == pytest.approx(
        {"LVBench test": 100, "Video-MME long": 100, "LongVideoBench val": 100, "mean": 75}
    )
    assert float(row["MLVU test, M-Avg"]) == 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--split", "val"], "--split: applies to a single benchmark"),
        (["--ids", "q1"], "--ids: applies to a single benchmark"),
        (["--backbone", "frames=8"], "frames is 8, and preset 'videopro' is of 64"),
        (["--root", "nowhere"], "nowhere/lvbench"),
    ],
)
def test_what_a_preset_refuses(
    more: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--benchmark", "videopro", "--model", "m", "--output", str(tmp_path / "runs")]
    assert main([*argv, "--root", str(tmp_path), *more], load=load_fake) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main(argv, load=load_fake) == 2
    assert "a folder with the folders lvbench, videomme, longvideobench, mlvu" in capsys.readouterr().err
    assert compare.main([*argv, "--root", str(tmp_path), "--methods", "native", "program"]) == 2
    assert "'videopro' is several benchmarks" in capsys.readouterr().err
    several = ["--benchmark", "pocket", "lvbench", "--model", "m", "--output", str(tmp_path / "runs")]
    assert compare.main([*several, "--root", str(tmp_path), "--methods", "native", "program"]) == 2
    assert "'pocket,lvbench' is several benchmarks" in capsys.readouterr().err
