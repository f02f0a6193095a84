"""Rows of grpo.jsonl: what is accepted, and what is left out; and which prompts are sampled in one batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from videopro.backbones.qwen import EncodedPrompt
from videopro.errors import DatasetError
from videopro.train.rl import as_dataset, read_grpo_rows
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length
from videopro.train.runtime import row_of
from videopro.train.settings import KINDS


def line(**changes: Any) -> dict[str, Any]:
    return {**grpo.record(grpo.rows()[1]), "video": "videos/b.mp4", **changes}


def test_rows_come_with_all_that_rewards_need(tmp_path: Path) -> None:
    given = [line(id=kind, kind=kind) for kind in KINDS]
    given[1] |= {"subtitles": "videos/b.srt", "subtitle_track": "de", "native_confidence": 0.25}
    given[2] |= {"video": "/elsewhere/c.mp4", "later": "fields are ignored"}
    found = read_grpo_rows(world.write(tmp_path / "grpo.jsonl", given))
    assert found.left_out == {}
    rows = found.rows
    assert [row.kind for row in rows] == list(KINDS)
    assert [row.video for row in rows[:3]] == [
        tmp_path / "videos" / "b.mp4",
        tmp_path / "videos" / "b.mp4",
        Path("/elsewhere/c.mp4"),
    ]
    (columns,) = list(as_dataset(rows[1:2]))
    assert columns["prompt"] == [{"role": "user", "content": given[1]["prompt"]}]
    row = rows[1]
    assert row.subtitles == tmp_path / "videos" / "b.srt"
    assert (row.question.text, list(row.question.choices)) == (given[1]["question"], given[1]["choices"])
    for name in ("id", "answer", "kind", "oracle_mode", "subtitle_track"):
        assert getattr(row, name) == given[1][name]
    assert [row_of(columns) for columns in as_dataset(rows)] == rows


def test_kinds_are_chosen(tmp_path: Path) -> None:
    path = world.write(tmp_path / "grpo.jsonl", [line(id=kind, kind=kind) for kind in KINDS])
    assert [row.kind for row in read_grpo_rows(path, ["bug_fix", "plan"]).rows] == ["plan", "bug_fix"]
    world.write(path, [line(kind="plan")])
    with pytest.raises(DatasetError, match="no prompts of kind bug_fix: its 1 rows are of other kinds"):
        read_grpo_rows(path, ["bug_fix"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"video": None}, "field 'video' is None; it must be a string"),
        ({"prompt": ""}, "field 'prompt' is ''; it must be a non-empty string"),
        ({"subtitle_track": 2}, "field 'subtitle_track' is 2; it must be a string or null"),
        ({"choices": "red"}, "field 'choices' is 'red'; it must be a list of strings"),
        ({"answer": "E"}, "answer is 'E'; it must be one of A, B"),
        ({"kind": "plans"}, "kind is 'plans'; it must be one of plan, bug_fix"),
        ({"oracle_mode": "both"}, "oracle_mode is 'both'; it must be native, program or null"),
        ({"subtitles": 3}, "field 'subtitles' is 3; it must be a string or null"),
        ({"prompt_video": "no"}, "prompt_video is 'no'; it must be true or false"),
        ({"id": "plan"}, "has the id 'plan' of line 1; ids must differ"),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out_and_named(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = world.write(tmp_path / "grpo.jsonl", [line(id="plan"), line(**changes)])
    found = read_grpo_rows(path)
    assert [row.id for row in found.rows] == ["plan"]
    assert list(found.left_out) == [2]
    assert found.left_out[2].startswith(said)
    assert found.summary() == f"{path}: 1 rows, 1 left out: line 2: {found.left_out[2]}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"query": "q", "response": "r"}', r"none of its 1 rows .* line 1: is a row for fine-tuning"),
        ("\n", "has no rows"),
        ("[1]", "line 1: must be an object, not list"),
    ],
)
def test_files_that_are_not_grpo_jsonl_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "grpo.jsonl").write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_grpo_rows(tmp_path / "grpo.jsonl")


# ---- prompts -----------------------------------------------------------------------------------------------


def prompt(length: int) -> PolicyPrompt:
    return PolicyPrompt(EncodedPrompt((0,) * length, (0,) * length), torch.zeros(3, length), length)


@pytest.mark.parametrize(
    ("lengths", "most", "batches"),
    [
        # By hand: a batch's longest is at most twice its shortest.
        ([100, 2000, 200, 201, 100], 8, [[0, 4, 2], [3], [1]]),
        ([100, 100, 100, 100, 100], 2, [[0, 1], [2, 3], [4]]),
        ([7], 1, [[0]]),
        ([], 4, []),
    ],
)
def test_prompts_of_similar_length_are_sampled_together(
    lengths: list[int], most: int, batches: list[list[int]]
) -> None:
    assert list(batches_by_length([prompt(length) for length in lengths], most)) == batches
