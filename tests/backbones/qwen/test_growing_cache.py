"""A cache with room holds what the library's holds, after any passes, reorderings and cuts."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import DynamicCache

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


def test_a_copy_is_independent() -> None:
    generator = torch.Generator().manual_seed(1)
    plain, roomy = caches(generator)
    grow(generator, 3, plain, roomy)
    grow(generator, 3, copy.deepcopy(roomy))
    same(plain, roomy)
    grow(generator, 3, plain, roomy)
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
