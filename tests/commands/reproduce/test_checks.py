"""What a reproduction needs of the machine, of what its stages alone need."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.roads import by_name, names, road
from videopro.commands.doctor import Finding
from videopro.commands.reproduce import checks
from videopro.commands.reproduce.checks import examine
from videopro.commands.reproduce.command import COMMAND, selected
from videopro.commands.reproduce.estimates import size_of
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road
from videopro.modules.models import transcription


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Whisper, whose hub has every model."""
    monkeypatch.setattr(transcription, "find_whisper", lambda: None)
    monkeypatch.setattr(checks, "check_needs", lambda needs: None)


def findings(walked: Road, *kinds: str) -> dict[str, Finding]:
    stages = [stage for stage in stages_of(walked) if stage.kind in kinds]
    return {found.name: found for found in examine(walked, stages, {})}


def test_training_alone_needs_no_files_of_benchmarks(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    found = findings(road(tmp_path, sft_data=str(rows)), "sft")
    assert [name for name, each in found.items() if each.state == "broken"] == []
    models = [name for name, each in found.items() if each.section == "models"]
    assert models == ["model Qwen/Qwen3-VL-8B-Instruct"]
    assert found["rows for sft"].text == f"{rows}: 1 rows"
    for no_file in (tmp_path / "missing.jsonl", tmp_path):
        found = findings(road(tmp_path, sft_data=str(no_file), grpo="none"), "sft")
        assert found["rows for sft"].state == "broken"
    assert findings(road(tmp_path), "infer")["lvbench test"].state == "broken"


def test_rows_whose_videos_are_elsewhere_are_told_before_a_teacher_is_paid(tmp_path: Path) -> None:
    # Paths count from the file, as the trainings read them; a row without a video needs none.
    (tmp_path / "a.mp4").touch()
    rows = tmp_path / "rows.jsonl"
    for films, state in ((["b", "c"], "broken"), (["a", "b"], "wrong"), (["a", "a"], "ok")):
        records = [{"videos": [f"{film}.mp4"]} for film in films]
        rows.write_text("".join(json.dumps(record) + "\n" for record in records))
        found = findings(road(tmp_path, sft_data=str(rows)), "sft")["rows for sft"]
        assert (found.state, "2 rows" in found.text) == (state, True)
    rows.write_text('{"query": "What may a program call?"}\n')
    assert findings(road(tmp_path, sft_data=str(rows)), "sft")["rows for sft"].state == "ok"


def test_a_machine_without_gpus_may_download_for_others(tmp_path: Path) -> None:
    settings = COMMAND.parse(["--config", "paper", "--output", str(tmp_path / "out")])
    walked = Road(settings, [])
    assert "GPUs" not in findings(walked, "download")
    asked = findings(walked, "download", "index")["GPUs"]
    assert (asked.state, asked.text) == ("broken", "0 of the 8 that gpus asks for")


def test_the_disk_of_the_cache_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    full = SimpleNamespace(free=20e9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)
    # One disk for both has to hold both.
    assert [name for name in findings(road(tmp_path), "sft") if "disk" in name] == ["disk"]
    assert findings(road(tmp_path), "sft")["disk"].state == "wrong"
    monkeypatch.setattr(checks, "_device", lambda folder: int(folder.name == "cache"))
    apart = findings(road(tmp_path), "sft")
    assert (apart["disk"].state, apart["disk of the cache"].state) == ("wrong", "ok")
    # On a CPU nothing of that size is written.
    assert findings(road(tmp_path, gpus=0), "sft")["disk"].state == "ok"
    (tmp_path / "out").write_text("")
    assert findings(road(tmp_path), "sft")["disk"].state == "broken", "below a file"


@pytest.mark.parametrize("changes", [{"transcripts": False}, {"modules": {"speech": "none"}}])
def test_without_transcripts_nothing_is_transcribed(tmp_path: Path, changes: dict[str, Any]) -> None:
    stages = by_name(road(tmp_path, **changes))
    assert "transcribe" not in stages
    assert not [command for command in stages["download"].commands if "whisper" in str(command)]


def test_a_test_set_without_its_answers_is_told_before_it_is_asked(tmp_path: Path) -> None:
    # MLVU's questions are on the hub, and their answers on GitHub.
    mlvu = tmp_path / "data/mlvu"
    mlvu.mkdir(parents=True)
    row = {"question_id": "Q1", "question_type": "count", "video": "a.mp4", "question": "How many?"}
    questions = json.dumps([{**row, "candidates": ["1", "2", "3", "4", "5", "6"]}])
    (mlvu / "test_multi_choice_tasks.json").write_text(questions)
    walked = road(tmp_path, data=tmp_path / "data", benchmarks=("mlvu",), ablation_benchmarks=())
    stages = [stage for stage in stages_of(walked) if stage.kind == "infer"]

    def finding() -> Finding:
        sizes = {part.folder: size_of(part, walked.root(part)) for part in walked.tested}
        return next(each for each in examine(walked, stages, sizes) if each.name.startswith("mlvu"))

    assert (finding().state, "1 have no known answer" in finding().text) == ("wrong", True)
    (mlvu / "test_mcq_gt.json").write_text(json.dumps([{"question_id": "Q1", "answer": "3"}]))
    assert finding().state == "ok"


def test_files_that_cannot_be_read_are_missing_unless_their_download_goes_on(tmp_path: Path) -> None:
    for folder in ("cg_bench/.cache/huggingface", "lvbench"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    found = findings(road(tmp_path, data=tmp_path / "data"), "download", "check")
    states = [found[name].state for name in ("cg_bench full", "lvbench test")]
    assert states == ["wrong", "broken"]


def test_files_that_were_put_there_by_hand_are_not_downloaded(tmp_path: Path) -> None:
    def downloads() -> bool:
        commands = by_name(road(tmp_path, data=tmp_path / "data"))["download"].commands
        return any("--repo-type" in command.arguments for command in commands)

    assert downloads()
    (tmp_path / "data/cg_bench").mkdir(parents=True)
    assert not downloads()
    # As the hub's client leaves it, also when it was stopped.
    (tmp_path / "data/cg_bench/.cache/huggingface").mkdir(parents=True)
    assert downloads()
    walked = road(tmp_path)
    assert names(selected(stages_of(walked), walked.config))[0] == "download"
    fetched = by_name(road(tmp_path, data=tmp_path / "data"))["download"].fetches
    assert fetched == (tmp_path / "data/cg_bench",)
