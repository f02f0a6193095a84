"""Benchmarks through the command lines: a run with gaps, check, several under one name. Protocols: each names
its source, survives a run folder and fills its prompt."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.adapting import adapted
from tests.support.benchmark_runs import coloured, infer, paper_folders
from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_world import MME, touch, write_parquet
from tests.support.colours import load_fake, make_video
from videopro.benchmarks import BENCHMARKS, OFFICIAL, PRESETS, load
from videopro.benchmarks.protocol import ROBUST, Protocol
from videopro.benchmarks.registry import CONTRIBUTED
from videopro.cli import read_yaml
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.commands.infer import main
from videopro.commands.report import main as report_main
from videopro.errors import BenchmarkError, ConfigError
from videopro.methods import METHODS


def test_a_run_with_a_third_of_its_videos_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, log = tmp_path / "lvb", tmp_path / "asked"
    coloured(root)
    flags = ["--benchmark", "longvideobench", "--backbone", f"log={log}"]
    assert infer(root, tmp_path / "run", *flags) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    wanted = {"split": "val", "protocol": "subtitles", "subtitles": "interleaved", "n": 2, "accuracy": 1.0}
    wanted |= {"official_accuracy": 1.0, "coverage": pytest.approx(2 / 3), "errors": {"VideoError": 1}}
    assert {name: summary[name] for name in wanted} == wanted
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
    assert "protocol.subtitles: the run has 'interleaved'" in capsys.readouterr().err


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


# ---- check ------------------------------------------------------------------------------------------------


def test_check_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet(tmp_path / "videomme/test-00000-of-00001.parquet", [*MME, {**MME[0], "answer": "X"}])
    touch(tmp_path, "data/video-id_01.mp4", "data/video-id_02.mp4", "videos_chunked_01.zip")
    touch(tmp_path, "subtitle/video-id_01.srt")
    (tmp_path / "data/video-id_03.mp4").write_bytes(b"")
    flags = ["check", "videomme", "--root", str(tmp_path), "--protocol", "subtitles"]
    assert benchmarks_main(flags) == 2
    output = capsys.readouterr().out
    for expected in (
        *("questions: 4", "broken records: 1", "'X' is not an option", "videos: 2 of 4 found"),
        *("missing: video-id_03, video-id_04; 2 questions", "subtitles: 1 of 4 videos have subtitles"),
        *(f"--root {tmp_path} --unpack\n  videos_chunked_01.zip\n", "duration: long 3, short 1"),
    ):
        assert expected in output
    # With --open, a file that only looks like a video is detected.
    assert benchmarks_main([*flags, "--open"]) == 2
    assert "video-id_01.mp4" in capsys.readouterr().out


def test_evidence_past_the_end_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a video of 10 s, which may have been 9.6 s in whole seconds."""
    make_video(tmp_path / "v.mp4", "red", seconds=10.0)
    flags = ["check", "jsonl", "--root", str(tmp_path)]
    within = {"within": [[0.0, 10.0]], "rounded": [[4.0, 10.9]]}
    past = {"after": [[100.0, 105.5]], "across": [[1.0, 2.0], [8.0, 12.0]], "at the end": [[10.0, 10.5]]}
    for evidence, status in ((within, 0), (within | past, 2)):
        about = {"video": "v.mp4", "question": "Which?", "choices": ["a", "b"]}
        lines = [{"id": name, **about, "evidence": intervals} for name, intervals in evidence.items()]
        (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert benchmarks_main([*flags, "--open"]) == status
        said = capsys.readouterr().out
        assert said.endswith("complete\n") is (status == 0)
    assert "evidence past the end of the video: 3" in said
    assert "question after: its evidence 100 to 105.5 s ends after v.mp4 (10.00 s)" in said
    assert "question across: its evidence 8 to 12 s ends" in said
    assert "question at the end: its evidence 10 to 10.5 s ends" in said
    assert "incomplete" in said
    # Without opening the file its length is not known.
    assert benchmarks_main(flags) == 0


# ---- several benchmarks under one name -------------------------------------------------------------------


def test_the_papers_protocol_is_one_name(tmp_path: Path) -> None:
    """All four run, 64 frames a call, and their folders give Table 1: all right but MLVU's question, whose
    video is red and whose gold grey."""
    paper_folders(tmp_path / "data")
    frames: list[Any] = []

    def load(model: str, **settings: Any) -> Any:
        frames.append(settings.pop("frames"))
        return load_fake(model, **settings)

    argv = ["--benchmark", "videopro", "--root", str(tmp_path / "data"), "--model", "m"]
    assert main([*argv, "--output", str(tmp_path / "runs")], load=load) == 0
    assert frames == [64] * 4
    names = ["lvbench", "longvideobench", "mlvu", "videomme"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(names)
    for name in names:
        protocol = read_yaml(tmp_path / "runs" / name / "config.yaml")["identity"]["protocol"]
        assert (protocol["name"], protocol["benchmark"]) == ("videopro", name)
    assert report_main([str(tmp_path / "runs"), "--tables", "main", "--output", str(tmp_path / "r")]) == 0
    (row,) = csv.DictReader((tmp_path / "r/tables/main.csv").open())
    right = {head: float(value) for head, value in row.items() if head and "," not in head and value}
    assert right == {"LVBench test": 100, "Video-MME long": 100, "LongVideoBench val": 100, "mean": 75}
    assert float(row["MLVU test, M-Avg"]) == 0


@pytest.mark.parametrize("name", [*OFFICIAL, *CONTRIBUTED])
def test_every_protocol_names_its_source_and_survives_a_run_folder(name: str) -> None:
    plugin = BENCHMARKS.find(name)
    # A file of this package is no part of a run's key.
    assert (plugin.value.name, plugin.version) == (name, "")
    protocols = plugin.value.protocols
    identities = {json.dumps(protocol.identity(), sort_keys=True): protocol for protocol in protocols}
    assert len(identities) == len(protocols)
    for identity, protocol in identities.items():
        assert Protocol.from_identity(json.loads(identity)) == protocol
        prompt = protocol.answer_prompt
        assert prompt is not None or name in OFFICIAL
        assert prompt is None or ("commit" in prompt.source and "{question}" in prompt.text)


def test_presets_exist() -> None:
    with pytest.raises(BenchmarkError, match=r"videopro: is a set of benchmarks \(lvbench, videomme"):
        load("videopro")
    for parts, frames in PRESETS.values():
        assert frames == 64
        for name, split, protocol in parts:
            assert split in BENCHMARKS[name].splits
            assert BENCHMARKS[name].protocol(protocol).name == protocol
