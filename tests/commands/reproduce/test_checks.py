"""What a reproduction needs of the machine, of what its stages alone need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.roads import by_name, names, road
from videopro.commands.doctor.findings import Finding
from videopro.commands.reproduce import checks
from videopro.commands.reproduce.checks import examine
from videopro.commands.reproduce.command import selected
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road
from videopro.modules import transcripts


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Whisper, whose hub has every model."""
    monkeypatch.setattr(transcripts, "find_whisper", lambda: None)
    monkeypatch.setattr(checks, "check_needs", lambda needs: None)


def findings(walked: Road, *kinds: str) -> dict[str, Finding]:
    stages = [stage for stage in stages_of(walked) if stage.kind in kinds]
    return {found.name: found for found in examine(walked, stages, {})}


def test_training_alone_needs_no_files_of_benchmarks(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    found = findings(road(tmp_path, sft_data=str(rows)), "sft")
    assert [name for name, each in found.items() if each.state == "broken"] == []
    assert [name for name, each in found.items() if each.section == "models"] == [
        "model Qwen/Qwen3-VL-8B-Instruct"
    ]
    assert found["rows for sft"].text == str(rows)
    needed = findings(road(tmp_path), "infer")
    assert needed["lvbench test"].state == "broken"


@pytest.mark.parametrize("given", ["missing.jsonl", "."])
def test_rows_that_are_no_file(tmp_path: Path, given: str) -> None:
    found = findings(road(tmp_path, sft_data=str(tmp_path / given), grpo="none"), "sft")
    assert found["rows for sft"].state == "broken"


def test_an_output_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    assert findings(road(tmp_path), "sft")["disk"].state == "broken"


def test_whisper_is_downloaded_where_it_is_missing(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path))
    downloads = [command.arguments[1] for command in stages["download"].commands]
    assert "openai/whisper-large-v3-turbo" in downloads
    needed = findings(road(tmp_path), "transcribe")
    assert [name for name, each in needed.items() if each.section == "models"] == [
        "speech recognition whisper:openai/whisper-large-v3-turbo"
    ]


@pytest.mark.parametrize("changes", [{"transcripts": False}, {"modules": {"speech": "none"}}])
def test_without_transcripts_nothing_is_transcribed(tmp_path: Path, changes: dict[str, Any]) -> None:
    stages = by_name(road(tmp_path, **changes))
    assert "transcribe" not in stages
    assert not [command for command in stages["download"].commands if "whisper" in str(command)]


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
