"""The videos that a planner was trained on: recorded by their contents, and compared with those of GRPO."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from videopro.train.runtime.record import overlap_warning, with_stage
from videopro.train.runtime.setup import recorded_videos


@dataclass(frozen=True)
class Row:
    id: str
    video: Path | None


def content_of(data: bytes) -> str:
    """Of a small file: SHA-256 of its size in eight bytes and of all of it."""
    return hashlib.sha256(len(data).to_bytes(8, "little") + data).hexdigest()[:32]


@pytest.fixture
def videos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.mp4" for name in "abc"]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def test_videos_are_recorded_by_content_and_stage(videos: list[Path], tmp_path: Path) -> None:
    a, b, c = (content_of(path.name.encode()) for path in videos)
    rows = [Row("1", videos[0]), Row("2", videos[1]), Row("3", videos[1]), Row("text", None)]
    sft = with_stage({}, "sft", [*rows, Row("lost", tmp_path / "missing.mp4")])
    assert sft == {"sft": sorted([a, b])}
    # GRPO of what was fine-tuned, and fine-tuned again.
    assert with_stage(sft, "grpo", [Row("4", videos[2])]) == {"sft": sorted([a, b]), "grpo": [c]}
    assert with_stage(sft, "sft", [Row("4", videos[2])]) == {"sft": sorted([a, b, c])}


def test_grpo_on_videos_of_sft_is_told(videos: list[Path], tmp_path: Path) -> None:
    taught = with_stage({}, "sft", [Row("1", videos[0])])
    shutil.copy(videos[0], tmp_path / "renamed.mp4")
    rows = [Row("1", tmp_path / "renamed.mp4"), Row("2", videos[1]), Row("3", videos[2])]
    warning = overlap_warning(taught, rows, "adapter 'runs/sft'")
    assert warning is not None
    assert "1 of 3 videos of train_data are among those that adapter 'runs/sft'" in warning
    assert f"(the first: {tmp_path / 'renamed.mp4'})" in warning
    assert overlap_warning(taught, rows[1:], "it") is None
    # GRPO may be continued on its own videos.
    assert overlap_warning(with_stage({}, "grpo", rows), rows, "it") is None


@pytest.mark.parametrize("text", [None, "{", "[]", '{"run": {}}', '{"videos": 3}'])
def test_a_record_without_videos_names_none(tmp_path: Path, text: str | None) -> None:
    record = tmp_path / "training_record.json"
    if text is not None:
        record.write_text(text)
    assert recorded_videos(record) == {}
    record.write_text(json.dumps({"run": {}, "videos": {"sft": ["x"]}}))
    assert recorded_videos(record) == {"sft": ["x"]}
