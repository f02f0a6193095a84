"""A cache with room holds what the library's holds, after any passes, reorderings and cuts."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import DynamicCache

from tests.support.qwen_models import reference
from videopro.backbones.qwen.caches import GrowingLayer, make_growing


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
        for layer in range(2):
            new = tokens(generator, rows, 3 if step % 50 == 0 else 1)
            kept, given = plain.update(*new, layer), roomy.update(*new, layer)
            assert all(torch.equal(ours, theirs) for ours, theirs in zip(kept, given, strict=True))
        same(plain, roomy)


def test_a_copy_is_independent() -> None:
    generator = torch.Generator().manual_seed(1)
    plain, roomy = caches(generator)
    first = tokens(generator, 3, 1)
    for layer in range(2):
        plain.update(*first, layer)
        roomy.update(*first, layer)
    copied = copy.deepcopy(roomy)
    for layer in range(2):
        copied.update(*tokens(generator, 3, 1), layer)
    same(plain, roomy)
    second = tokens(generator, 3, 1)
    for layer in range(2):
        plain.update(*second, layer)
        roomy.update(*second, layer)
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


def test_the_model_gives_the_same_output() -> None:
    model, _ = reference("qwen3_vl")
    ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits[0]
        cache = model(input_ids=ids[:, :4], use_cache=True).past_key_values
        make_growing(cache)
        for place in range(4, 10):
            out = model(
                input_ids=ids[:, place : place + 1],
                position_ids=torch.full((4, 1, 1), place),
                past_key_values=cache,
                use_cache=True,
            )
            torch.testing.assert_close(out.logits[0, -1], whole[place], atol=1e-5, rtol=1e-4)
