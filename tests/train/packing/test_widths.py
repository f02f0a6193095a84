"""The widths of training batches on a GPU: few, close to the rows' own; and none of them elsewhere."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import AutoModelForImageTextToText

from tests.support.qwen_models import checkpoint
from videopro.train.packing import RowShape, bucketed


@pytest.mark.parametrize(
    ("width", "least", "expected"),
    [
        (1, 256, 256),
        (256, 256, 256),
        (257, 256, 512),
        (2048, 256, 2048),
        (2049, 256, 2304),
        # Between 4,096 and 8,192 an eighth of 4,096.
        (4097, 256, 4608),
        (5988, 256, 6144),
        (16_385, 256, 18_432),
        (1025, 128, 1152),
        (2049, 128, 2304),
    ],
)
def test_widths(width: int, least: int, expected: int) -> None:
    assert bucketed(width, least=least) == expected


@pytest.mark.parametrize("least", [32, 128, 256])
def test_at_most_an_eighth_of_a_row_is_padding(least: int) -> None:
    for width in range(1, 20_000, 7):
        padding = bucketed(width, least=least) - width
        assert 0 <= padding < max(least, width / 8 + 1)


def test_an_epoch_has_few_distinct_shapes() -> None:
    """Groups of 8 replies of 100 to 500 tokens after a prompt of 1,892 as packed rows; rows of 1,900 to 4,000
    tokens in batches of 4."""
    draw = random.Random(0)
    groups = {bucketed(1892 + sum(draw.randint(100, 500) for _ in range(8)), least=256) for _ in range(2000)}
    batches = {bucketed(max(draw.randint(1900, 4000) for _ in range(4)), least=128) for _ in range(2000)}
    assert len(groups) <= 12
    assert len(batches) <= 12


def test_without_a_gpu_rows_have_their_own_width_and_dense_masks() -> None:
    model = AutoModelForImageTextToText.from_pretrained(checkpoint("qwen3_vl"))
    shape = RowShape.of(model, torch.device("cpu"), autocast=True)
    assert shape == RowShape(buckets=False, blocks=False)
    assert shape.width(300, least=256) == 300
    assert RowShape(buckets=True).width(300, least=256) == 512
