"""Tokens drawn for all rows at once have the distribution that is asked for, by numbers of each row's own."""

from __future__ import annotations

import torch
from scipy.stats import chisquare

from videopro.backbones.base import Sampling
from videopro.backbones.qwen.replies import TokenSampler, uniforms

LOGITS = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.5, 2.0])
DRAWS = 100_000


def drawn(sampling: Sampling, banned: list[int] | None = None) -> torch.Tensor:
    """How often each token is drawn."""
    marks = None if banned is None else torch.tensor([token in banned for token in range(len(LOGITS))])
    tokens, _ = TokenSampler(sampling, marks)(LOGITS.expand(DRAWS, -1), uniforms([(5, 0)], DRAWS)[0])
    return torch.bincount(tokens, minlength=len(LOGITS))


def test_tokens_have_the_softmaxs_distribution() -> None:
    for temperature in (1.0, 0.7, 2.5):
        expected = (LOGITS.double() / temperature).softmax(-1) * DRAWS
        assert chisquare(drawn(Sampling(1, temperature=temperature)), expected).pvalue > 0.001


def test_what_is_banned_or_beyond_top_p_is_never_drawn() -> None:
    # By hand: the most probable is 0.62, the next 0.23, so that 0.8 is reached by these two.
    counts = drawn(Sampling(1, temperature=1.0, top_p=0.8))
    assert counts.nonzero()[:, 0].tolist() == [3, 5]
    share = LOGITS[[3, 5]].double().softmax(-1) * DRAWS
    assert chisquare(counts[[3, 5]], share).pvalue > 0.001
    assert drawn(Sampling(1, temperature=1.0), banned=[3, 0])[[3, 0]].tolist() == [0, 0]


def test_the_first_numbers_do_not_depend_on_how_many_there_are() -> None:
    many = uniforms([(1, 0), (1, 1)], 700)
    assert torch.equal(uniforms([(1, 0), (1, 1)], 3), many[:, :3])
    assert torch.equal(uniforms([(1, 1)], 700)[0], many[1])
    assert not torch.equal(many[0], many[1])
    assert many.min() >= 0
    assert many.max() < 1


def test_a_row_of_nan_is_told_and_changes_no_other() -> None:
    sampler = TokenSampler(Sampling(1, temperature=1.0), None)
    logits = torch.stack([LOGITS, torch.full_like(LOGITS, torch.nan), LOGITS])
    numbers = uniforms([(1, row) for row in range(3)], 1)[:, 0]
    tokens, logprobs = sampler(logits, numbers)
    alone, _ = sampler(logits[[0, 2]], numbers[[0, 2]])
    assert tokens[[0, 2]].tolist() == alone.tolist()
    assert logprobs.isnan().tolist() == [False, True, False]
