"""Draws the next token of every row of a batch at once, each row by random numbers of its own.

The numbers are drawn before a reply begins, from a generator that only the reply's seed decides. A token is
then the inverse of the cumulative distribution at its number. One batch of kernels serves all rows, and none
of them waits for the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from videopro.backbones.base import Sampling

_AT_ONCE = 256
"""Numbers drawn at once: a reply's first numbers do not depend on how many it may need."""
_BELOW_ONE = 1 - 2**-40


def uniforms(seeds: Sequence[tuple[int | None, int]], tokens: int) -> torch.Tensor:
    """A random number in [0, 1) for each token of each row, (rows, tokens) float64, on the CPU: the same on
    every device. `seeds` has a seed and a number for each row; a seed of None draws others each time."""
    drawn = [_row(seed, number, tokens) for seed, number in seeds]
    return torch.stack(drawn).clamp_(max=_BELOW_ONE)


def _row(seed: int | None, number: int, tokens: int) -> torch.Tensor:
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        # SeedSequence mixes both numbers, so that neighbouring seeds and rows give unrelated draws. Shifted,
        # because torch takes 63 bits.
        mixed = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
        generator.manual_seed(int(mixed >> 1))
    parts = [
        torch.rand(_AT_ONCE, generator=generator, dtype=torch.float64) for _ in range(0, tokens, _AT_ONCE)
    ]
    return torch.cat(parts)[:tokens]


class TokenSampler:
    """Chooses tokens as `sampling` says; `banned`, (vocabulary,) bool, marks token ids that are never
    chosen."""

    def __init__(self, sampling: Sampling, banned: torch.Tensor | None) -> None:
        self.draws = sampling.temperature > 0
        """Whether tokens are drawn; else the most probable one is taken."""
        self._banned = banned
        self._warpers = LogitsProcessorList()
        if self.draws:
            self._warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
            if sampling.top_p < 1:
                self._warpers.append(TopPLogitsWarper(sampling.top_p))

    def __call__(self, logits: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens, (rows,), and their log-probabilities before temperature, top-p and banned tokens, (rows,).

        `logits`: (rows, vocabulary) float32; `numbers`: (rows,), from `uniforms`. The log-probability of a
        row with a NaN is NaN.
        """
        warped = logits if self._banned is None else logits.masked_fill(self._banned, -torch.inf)
        no_ids: torch.LongTensor = None  # type: ignore[assignment]  # None of the warpers uses earlier tokens.
        warped = self._warpers(no_ids, warped)
        tokens = _draw(warped, numbers) if self.draws else warped.argmax(-1)
        return tokens, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def _draw(logits: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Invert each row's cumulative distribution at its number."""
    # In double precision: the sum over a large vocabulary would lose rare tokens in single.
    cumulative = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    at = (numbers * cumulative[:, -1])[:, None]
    tokens = torch.searchsorted(cumulative, at, right=True)[:, 0]
    # A row of NaN finds no place; its log-probability tells.
    return tokens.clamp(max=logits.shape[-1] - 1)
