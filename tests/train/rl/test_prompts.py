"""Which prompts are sampled in one batch."""

from __future__ import annotations

import pytest
import torch

from videopro.backbones.qwen import EncodedPrompt
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length


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
