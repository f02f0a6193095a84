"""Attention under a dense mask by spans: SDPA computes all pairs of a mask, however few of them count.

document 1 | document 2              two spans, each causal, that attend to nothing before them
video, prompt, reply 1 | reply 2 ..  a causal span, and the other replies under their part of the mask
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.integrations.sdpa_attention import sdpa_attention_forward

_WORTH = 0.55
"""The share of all pairs below which spans are worth their copies, in a batch of one row; several rows take a
call for each. At the shapes of 2B a GRPO group of 16 short replies computes half of its pairs, in 0.7 of the
time. At two thirds of the pairs nothing is gained."""

_SPANS = WeakTensorKeyDictionary()
"""By the mask, the spans of its row. A mask that is copied on the way has none, and is dense."""


@dataclass(frozen=True)
class Span:
    """The tokens from `start` to `end` of a row, which attend to none before `first`."""

    start: int
    end: int
    first: int
    causal: bool
    """Each attends to all from `first`, which is `start`, to itself; otherwise the mask says to which."""

    @property
    def pairs(self) -> int:
        """The pairs of tokens that are computed. Causal attention skips those of the upper triangle."""
        length = self.end - self.start
        return length * (length + 1) // 2 if self.causal else length * (self.end - self.first)


def find_spans(mask: torch.Tensor, parts: torch.Tensor) -> list[Span]:
    """The spans of a row. `mask`, (tokens, tokens) bool: the tokens of a part attend to the same ones before
    it, and to one another causally; `parts`, (tokens,), has another value where a new part begins."""
    width = len(mask)
    starts = [0, *(1 + (parts[1:] != parts[:-1]).nonzero()[:, 0]).tolist()]
    spans: list[Span] = []
    for start, end in zip(starts, [*starts[1:], width], strict=True):
        seen = mask[start, :start].nonzero()[:, 0].tolist()
        last = spans[-1] if spans else None
        if last is None or not seen:
            spans.append(Span(start, end, start, causal=True))
        elif last.causal and seen == list(range(last.start, start)):
            spans[-1] = Span(last.start, end, last.first, causal=True)
        elif last.causal:
            spans.append(Span(start, end, seen[0], causal=False))
        else:
            spans[-1] = Span(last.start, end, min(last.first, seen[0]), causal=False)
    return spans


def note_spans(mask: torch.Tensor, parts: torch.Tensor) -> bool:
    """Note the spans of `mask`, (rows, 1, tokens, tokens) bool, for `attend_by_spans`, if they are worth it:
    whether they are. `parts`, (rows, tokens): see `find_spans`."""
    rows, width = parts.shape
    if rows > 1:
        return False
    spans = find_spans(mask[0, 0].cpu(), parts[0].cpu())
    is_worth = sum(span.pairs for span in spans) < _WORTH * width * width
    if is_worth:
        _SPANS[mask] = spans
    return is_worth


def spans_of(mask: Any) -> Sequence[Span] | None:
    """The spans of an attention mask's row, if they were noted."""
    return _SPANS.get(mask) if isinstance(mask, torch.Tensor) else None


def attend_by_spans(
    module: Any, heads: Sequence[torch.Tensor], mask: torch.Tensor, spans: Sequence[Span], **settings: Any
) -> torch.Tensor:
    """As `sdpa_attention_forward` with this mask: (1, tokens, heads, values). `heads`: queries, keys and
    values, (1, heads, tokens, values)."""
    query, key, value = heads

    def attend(span: Span) -> Any:
        return sdpa_attention_forward(
            module,
            query[:, :, span.start : span.end],
            key[:, :, span.first : span.end],
            value[:, :, span.first : span.end],
            None if span.causal else mask[:, :, span.start : span.end, span.first : span.end],
            **{**settings, "is_causal": span.causal},
        )[0]

    return torch.cat([attend(span) for span in spans], dim=1)
