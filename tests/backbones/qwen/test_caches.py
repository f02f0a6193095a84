"""A cache with room holds what the library's holds, after any passes, reorderings and cuts; rows that share
their prompts' keys and values say what the library's forward says of each whole row."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from tests.support.qwen_models import reference
from videopro.backbones.qwen.caches import GrowingLayer, SharedCache, attending, can_share, make_growing


def tokens(generator: torch.Generator, rows: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of new tokens in two heads."""
    made = torch.randn(2, rows, 2, count, 4, generator=generator)
    return made[0], made[1]


def caches(generator: torch.Generator) -> tuple[DynamicCache, DynamicCache]:
    """The library's cache of three rows, and an equal one with room."""
    plain = DynamicCache()
    for layer in range(2):
        plain.update(*tokens(generator, 3, 5), layer)
    roomy = copy.deepcopy(plain)
    make_growing(roomy)
    assert all(isinstance(layer, GrowingLayer) for layer in roomy.layers)
    return plain, roomy


def grow(generator: torch.Generator, rows: int, *both: DynamicCache, count: int = 1) -> None:
    """By the same tokens; what is given back is equal too."""
    for layer in range(2):
        new = tokens(generator, rows, count)
        first, *others = (cache.update(*new, layer) for cache in both)
        for other in others:
            assert all(torch.equal(ours, theirs) for ours, theirs in zip(first, other, strict=True))


def same(plain: DynamicCache, roomy: DynamicCache) -> None:
    assert roomy.get_seq_length() == plain.get_seq_length()
    for ours, theirs in zip(roomy.layers, plain.layers, strict=True):
        assert torch.equal(ours.keys, theirs.keys)
        assert torch.equal(ours.values, theirs.values)


def test_it_equals_the_librarys_cache() -> None:
    generator = torch.Generator().manual_seed(0)
    plain, roomy = caches(generator)
    rows = 3
    # Past the room that is made at once, with rows left out, repeated, and tokens taken back on the way.
    for step in range(300):
        if step in (40, 170):
            chosen = torch.tensor([2, 0]) if step == 40 else torch.tensor([1, 1, 0, 0])
            plain.reorder_cache(chosen)
            roomy.reorder_cache(chosen)
            rows = len(chosen)
        if step == 100:
            plain.crop(-7)
            roomy.crop(-7)
        grow(generator, rows, plain, roomy, count=3 if step % 50 == 0 else 1)
        same(plain, roomy)


@pytest.mark.parametrize("reorder", [False, True])
def test_a_new_token_does_not_copy_the_others(reorder: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    _, roomy = caches(generator)
    if reorder:
        roomy.reorder_cache(torch.tensor([0, 1]))
    places = set()
    for _ in range(100):
        keys, _ = roomy.update(*tokens(generator, 2 if reorder else 3, 1), 0)
        places.add(keys.data_ptr())
    assert len(places) == 1


PROMPTS = ([5, 9, 4, 7, 21], [8, 6, 11])
TAILS = {0: [3, 14, 15], 1: [9, 2, 6], 2: [5, 3, 5], 3: [8, 9, 7], 4: [9, 3, 2]}
OF = [1, 0, 1, 1, 0]
"""Which prompt each row begins with: not in order, and of several lengths."""


@pytest.fixture(scope="module")
def model() -> Any:
    return reference("qwen3_vl")[0]


def expected(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Logits of the last token, by the library, of a row on its own."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1]


def places(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(-1) - 1).clamp(min=0)[None].expand(4, -1, -1)


def prompts(model: Any) -> tuple[Any, torch.Tensor]:
    """The cache of both prompts, padded on the left, and its mask."""
    ids = torch.tensor([PROMPTS[0], [0, 0, *PROMPTS[1]]])
    mask = torch.tensor([[1] * 5, [0, 0, 1, 1, 1]])
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, position_ids=places(mask), use_cache=True)
    return out.past_key_values, mask


def extend(model: Any, cache: Any, mask: torch.Tensor, tokens: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Logits of the last of some more tokens a row, and the mask with them."""
    mask = torch.cat([mask, mask.new_ones(tokens.shape)], dim=1)
    with torch.no_grad(), attending(model, cache):
        out = model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=places(mask)[..., -tokens.shape[1] :],
            past_key_values=cache,
            use_cache=True,
        )
    return out.logits[:, -1], mask


@pytest.mark.parametrize("width", [1, 3])
def test_each_row_is_the_whole_row(model: Any, width: int) -> None:
    cache, mask = prompts(model)
    shared, mask = SharedCache(cache, torch.tensor(OF)), mask[OF]
    tails = torch.tensor(list(TAILS.values()))
    for start in range(0, 3, width):
        logits, mask = extend(model, shared, mask, tails[:, start : start + width])
        for row, of in enumerate(OF):
            whole = [*PROMPTS[of], *TAILS[row][: start + width]]
            torch.testing.assert_close(logits[row], expected(model, whole), atol=1e-5, rtol=1e-4)
    assert shared.get_seq_length() == 5 + 3
    # What was shared is as it was, and attention too.
    assert cache.get_seq_length() == 5
    assert model.config.get_text_config()._attn_implementation == "sdpa"


# Rows are removed, until a prompt has no row left, and rows are duplicated.
@pytest.mark.parametrize("kept", [[0, 1, 3], [4, 1], [3, 2, 3, 0], [2]])
def test_rows_leave_and_are_repeated(model: Any, kept: list[int]) -> None:
    cache, mask = prompts(model)
    shared, mask = SharedCache(cache, torch.tensor(OF)), mask[OF]
    tails = torch.tensor(list(TAILS.values()))
    _, mask = extend(model, shared, mask, tails[:, :2])
    shared.reorder_cache(torch.tensor(kept))
    logits, _ = extend(model, shared, mask[kept], tails[kept, 2:])
    for row, source in enumerate(kept):
        whole = [*PROMPTS[OF[source]], *TAILS[source]]
        torch.testing.assert_close(logits[row], expected(model, whole), atol=1e-5, rtol=1e-4)
    (layer, *_) = shared.layers
    assert len(layer.prompt_keys) == len({OF[source] for source in kept})


def test_a_prompt_is_held_once(model: Any) -> None:
    cache, _ = prompts(model)
    shared = SharedCache(cache, torch.tensor(OF * 10))
    for layer, plain in zip(shared.layers, cache.layers, strict=True):
        assert layer.prompt_keys.data_ptr() == plain.keys.data_ptr()


def test_a_model_may_be_spread_over_devices() -> None:
    # A second device that every machine has; its tensors have shapes and no values.
    prompts = DynamicCache()
    for number, device in enumerate(("cpu", "meta")):
        prompts.update(torch.zeros(2, 2, 5, 4, device=device), torch.zeros(2, 2, 5, 4, device=device), number)
    shared = SharedCache(prompts, torch.tensor(OF))
    shared.reorder_cache(torch.tensor([0, 2, 3]))
    for layer, device in zip(shared.layers, ("cpu", "meta"), strict=True):
        held = (layer.prompt_keys, layer.prompt_values, layer.keys, layer.values)
        assert {tensor.device.type for tensor in (*held, layer.rows.slots, layer.rows.indices)} == {device}
        assert (len(layer.prompt_keys), len(layer.keys)) == (1, 3)
        assert layer.rows.slots.shape == (1, 3)


def test_only_layers_that_attend_to_everything_share(model: Any) -> None:
    cache, _ = prompts(model)
    assert can_share(model, cache)
    hybrid, _ = reference("qwen3_5")
    with torch.no_grad():
        recurrent = hybrid(input_ids=torch.tensor([PROMPTS[0]]), use_cache=True).past_key_values
    assert not can_share(hybrid, recurrent)
    # Rows that already share their prompts cannot share again.
    assert not can_share(model, SharedCache(cache, torch.tensor(OF)))
