"""Which tokens of a packed row attend to which, by the rule; and the widths of batches on a GPU."""

import random
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from tests.support.qwen_models import reference
from videopro.train import packing
from videopro.train.packing import NO_BRANCH, PADDING, ROOT, RowShape, Span, block_mask, bucketed, dense_mask


def random_row(draw: random.Random, width: int) -> tuple[list[int], list[int]]:
    """A video, some prompts about it with some replies each, and padding, as segments and branches."""
    segments, reply = [ROOT] * draw.randint(0, 9), 0
    branches = [NO_BRANCH] * len(segments)
    for prompt in range(draw.randint(1, 3)):
        length = draw.randint(1, 6)
        segments += [prompt] * length
        branches += [NO_BRANCH] * length
        for _ in range(draw.randint(0, 3)):
            length = draw.randint(1, 5)
            segments += [prompt] * length
            branches += [reply] * length
            reply += 1
    rest = width - len(segments)
    return segments + [PADDING] * rest, branches + [PADDING] * rest


def sees(segments: list[int], branches: list[int], query: int, key: int) -> bool:
    """The rule, said once more: the past that a token has in a row of its own."""
    if key > query:
        return False
    if segments[key] == ROOT or key == query:
        return True
    return segments[key] == segments[query] and branches[key] in (NO_BRANCH, branches[query])


@pytest.mark.parametrize("seed", range(4))
def test_masks_are_those_of_the_rule(seed: int) -> None:
    draw = random.Random(seed)
    rows = [random_row(draw, 90) for _ in range(3)]
    places = range(90)
    expected = torch.tensor([[[sees(*row, at, key) for key in places] for at in places] for row in rows])
    segments, branches = (torch.tensor(side) for side in zip(*rows, strict=True))
    assert torch.equal(dense_mask(segments, branches)[:, 0], expected)
    blocks = block_mask(segments, branches)
    assert torch.equal(create_mask(blocks.mask_mod, 3, 1, 90, 90, device="cpu")[:, 0], expected)


def test_documents_are_causal_spans_and_replies_after_the_first_are_not() -> None:
    """Two documents and padding; a video of 40 tokens, a prompt of 8 and its three replies of 4."""
    documents = [0] * 30 + [1] * 20 + [PADDING] * 10
    tree = [ROOT] * 40 + [0] * 20
    replies = [NO_BRANCH] * 48 + [5] * 4 + [6] * 4 + [7] * 4
    shape = RowShape()
    masks = [
        shape.mask(torch.tensor([documents]), torch.tensor([[NO_BRANCH] * 50 + [PADDING] * 10])),
        shape.mask(torch.tensor([tree]), torch.tensor([replies])),
    ]
    assert [packing.spans_of(mask) for mask in masks] == [
        [Span(0, 30, 0, True), Span(30, 50, 30, True), Span(50, 60, 50, True)],
        [Span(0, 52, 0, True), Span(52, 60, 0, False)],
    ]


@pytest.mark.parametrize(("rows", "prompt"), [(1, 10), (2, 90)], ids=["replies alone", "two rows"])
def test_where_spans_save_little_a_row_is_attended_to_under_its_mask(rows: int, prompt: int) -> None:
    """Of 100 tokens 10 are in prompts, so that spans would save little more than a tenth of the pairs; two
    rows with more would take two calls for each span."""
    replies = [NO_BRANCH] * prompt + [number % 10 for number in range(100 - prompt)]
    mask = RowShape().mask(torch.zeros((rows, 100), dtype=torch.long), torch.tensor([replies] * rows))
    assert packing.spans_of(mask) is None


def heads(width: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(2, count, width, 16, generator=draw) for count in (4, 2, 2)]


@pytest.mark.parametrize("seed", range(4))
def test_attention_by_spans_is_that_by_the_dense_mask(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_WORTH", 2)
    draw = random.Random(seed)
    segments, branches = (torch.tensor([side]) for side in random_row(draw, 90))
    module = SimpleNamespace(num_key_value_groups=2, is_causal=True, training=False)
    noted = RowShape().mask(segments, branches)
    assert packing.spans_of(noted) is not None
    results = []
    for mask in (noted, noted.clone()):
        made = [each[:1].requires_grad_() for each in heads(90)]
        out, _ = packing._sdpa_or_parts(module, *made, mask, scaling=0.3, dropout=0.0)
        (out * torch.arange(16)).sum().backward()
        results.append((out.detach(), *(each.grad for each in made)))
    for by_spans, dense in zip(*results, strict=True):
        torch.testing.assert_close(by_spans, dense, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("width", "least", "expected"),
    [
        (256, 256, 256),
        (2049, 256, 2304),
        # Between 4,096 and 8,192 an eighth of 4,096.
        (4096, 256, 4096),
        (4097, 256, 4608),
        (1025, 128, 1152),
    ],
)
def test_widths(width: int, least: int, expected: int) -> None:
    assert bucketed(width, least=least) == expected


def test_without_a_gpu_rows_have_their_own_width_and_dense_masks() -> None:
    model, _ = reference("qwen3_vl")
    shape = RowShape.of(model, torch.device("cpu"), autocast=True)
    assert shape == RowShape(buckets=False, blocks=False)
    assert shape.width(300, least=256) == 300
    assert RowShape(buckets=True).width(300, least=256) == 512
