"""Rows with a system turn, or with their video anywhere in the user's turn, against transformers' processor
on the same conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import sft_world as world
from tests.support.qwen_models import reference
from tests.support.sft_reference import conversation
from videopro.train.finetune import as_dataset, read_rows

FAMILIES = ("qwen2_5_vl", "qwen3_vl")


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_the_official_processor(family: str, tmp_path: Path) -> None:
    video = str(world.folder() / "videos" / "a.mp4")
    reply = {"role": "assistant", "content": world.STEPS}
    system = {"role": "system", "content": "You write programs.\n<planning> first"}
    path = world.write(
        tmp_path / "train_sft.jsonl",
        [
            {"messages": [{"role": "user", "content": text}, reply], "videos": [video]}
            for text in ("Look:<video> which ring?", "Which ring?\n<video>", " <video>Which ring?")
        ]
        + [
            {"messages": [system, {"role": "user", "content": text}, reply], "videos": [video]}
            for text in ("<video>Which ring?", "Look: <video>\nwhich ring?")
        ]
        + [
            {"system": "", "query": "Which <video>?", "response": world.NATIVE, "videos": [video]},
            {"messages": [system, {"role": "user", "content": "What is a ring?"}, reply]},
        ],
    )
    rows = read_rows(path).rows
    assert len(rows) == 7
    _, processor = reference(family)
    expected = [conversation(family, processor, row) for row in rows]
    # They differ from each other.
    assert len({tuple(row["input_ids"][0].tolist()) for row in expected}) == 7
    dataset = as_dataset(rows)
    batch = world.collator(family)([dataset[number] for number in range(7)])
    for number, row in enumerate(expected):
        length = row["input_ids"].shape[1]
        for name in ("input_ids", "mm_token_type_ids", "labels"):
            assert batch[name][number, :length].tolist() == row[name][0].tolist(), (number, name)
    for name in ("video_grid_thw", "pixel_values_videos"):
        assert torch.equal(batch[name], torch.cat([row[name] for row in expected if name in row])), name
