"""Rows of several parts: their widths, which of their tokens attend to which, and attention over them.

A row has *segments* (the documents of a packed row, or the prompts about a video), and each may have
*branches* (the replies to a prompt), which do not see each other. On a GPU, FlexAttention skips tokens that
are not attended to. Elsewhere SDPA takes a dense mask, with which it computes all pairs of tokens, of which
15 to 30 % count in a GRPO group, and fewer in packed documents; so it is called by spans where that is worth
it:

    document 1 | document 2              two spans, each causal, that attend to nothing before them
    video, prompt, reply 1 | reply 2 ..  a causal span, and the other replies under their part of the mask
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.utils._triton import has_triton
from torch.utils.weak import WeakTensorKeyDictionary
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from videopro.errors import ConfigError

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


ROOT, NO_BRANCH, PADDING = -1, -1, -2
"""Values of `segments` and `branches`: of tokens that all segments see; of those that all branches of their
segment see; and of both in padding."""


def dense_mask(segments: torch.Tensor, branches: torch.Tensor) -> torch.Tensor:
    """The mask, (rows, 1, tokens, tokens) bool, of rows whose tokens have these segments and branches, both
    (rows, tokens): a token attends to earlier tokens of the root, its own segment and its own branch, and to
    itself."""
    width = segments.shape[1]
    before = torch.ones((width, width), dtype=torch.bool, device=segments.device).tril()
    segment, branch = segments[:, None, :], branches[:, None, :]
    same = (segments[:, :, None] == segment) & ((branch == NO_BRANCH) | (branches[:, :, None] == branch))
    return (before & ((segment == ROOT) | same))[:, None]


def block_mask(segments: torch.Tensor, branches: torch.Tensor) -> Any:
    """The same as a BlockMask of FlexAttention, which skips pairs that do not attend."""
    from torch.nn.attention.flex_attention import create_block_mask

    def attends(row: Any, _head: Any, query: Any, key: Any) -> Any:
        segment, branch = segments[row, key], branches[row, key]
        same = (segments[row, query] == segment) & ((branch == NO_BRANCH) | (branches[row, query] == branch))
        return (query >= key) & ((segment == ROOT) | same)

    rows, width = segments.shape
    return create_block_mask(attends, rows, None, width, width, device=segments.device)


_PER_OCTAVE = 8
"""The widths between a power of two and the next, where they are further apart than `least`. There are few,
since each new one costs a plan: cuDNN makes one of each attention that it has not seen, by batch and length,
which takes about as long as a training step, and FlexAttention compiles a kernel."""


def bucketed(width: int, *, least: int) -> int:
    """The next width at which a batch is made: a multiple of `least` (a power of two), and of an eighth of
    the power of two below it. So at most an eighth of a row is padding, or `least` tokens."""
    step = least
    # A width on a power of two belongs to the octave that it ends.
    while step * 2 * _PER_OCTAVE < width:
        step *= 2
    return -(-width // step) * step


_KERNELS = 64
"""Compiled kernels that are kept. A run needs one for each width, with gradients and without."""
_COMPUTE_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class RowShape:
    """How rows with several parts are laid out for a device.

    Without a GPU a row is as wide as its tokens, and any length is as good as another.
    """

    buckets: bool = False
    """Widths come from `bucketed`."""
    blocks: bool = False
    """Masks are BlockMasks."""

    @classmethod
    def of(cls, model: PreTrainedModel, device: torch.device, *, autocast: bool) -> RowShape:
        """For training `model` on `device`; `autocast`: its attention computes in 16 bits whatever its
        weights are. FlexAttention then takes over SDPA's BlockMasks."""
        if device.type != "cuda":
            return cls()
        half = autocast or model.dtype in (torch.bfloat16, torch.float16)
        # In fp32 its backward pass does not fit the shared memory of a multiprocessor.
        blocks = half and has_triton() and torch.cuda.get_device_capability(device) >= _COMPUTE_CAPABILITY
        if blocks:
            attend_by_parts()
        return cls(buckets=True, blocks=blocks)

    def width(self, longest: int, *, least: int) -> int:
        """The width of a batch, from the number of tokens of its longest row."""
        return bucketed(longest, least=least) if self.buckets else longest

    def mask(self, segments: torch.Tensor, branches: torch.Tensor) -> Any:
        """The attention mask of rows whose tokens have these segments and branches, (rows, tokens)."""
        if self.blocks:
            return block_mask(segments, branches)
        mask = dense_mask(segments, branches)
        # No two neighbouring parts have the same number: branches are from -2 on, and fewer than the width.
        if note_spans(mask, segments * (segments.shape[1] + 2) + branches):
            attend_by_parts()
        return mask


def check_parts(
    setting: str, model: PreTrainedModel, is_recurrent: bool, *, aux_loss: bool, flash: bool = False
) -> None:
    """Raise ConfigError for a model whose packed rows would not give the results of separate rows.

    `setting`: what asks for them. `is_recurrent`: some of its layers are. `aux_loss`: its router's loss is
    part of the training. `flash`: flash attention finds the parts by their positions."""
    attention, off = str(model.config._attn_implementation), f"set {setting}: false"
    if is_recurrent:
        raise ConfigError(
            f"{setting} is true, but this model has recurrent layers, which would carry state from one part "
            f"of a row to the next; {off}"
        )
    # It is a mean over the tokens of a whole row.
    if aux_loss:
        raise ConfigError(
            f"{setting} is true, but this model's router loss is computed over whole rows; {off}, or "
            "router_aux_loss_coef: 0"
        )
    if attention != "sdpa" and not (flash and attention.startswith("flash_attention")):
        raise ConfigError(
            f"{setting} is true, but attention {attention!r} does not support block masks; set "
            f"attn_implementation: sdpa, or {off}"
        )


def attend_by_parts() -> None:
    """From here on, models with attn_implementation sdpa take BlockMasks too, and masks with spans by spans.
    Other masks are SDPA's."""
    # By the same name: generation, and what shares prompts, ask for sdpa.
    AttentionInterface.register("sdpa", _sdpa_or_parts)


def _sdpa_or_parts(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **more: Any
) -> tuple[torch.Tensor, None]:
    if not isinstance(attention_mask, BlockMask):
        # A compiled layer has no place for a loop over spans, which differ from batch to batch.
        spans = None if torch.compiler.is_compiling() else spans_of(attention_mask)
        if spans is not None:
            return attend_by_spans(module, (query, key, value), attention_mask, spans, **more), None
        return sdpa_attention_forward(module, query, key, value, attention_mask, **more)
    device = query.device.type
    if torch.is_autocast_enabled(device):
        # SDPA is on autocast's list, FlexAttention is not.
        query, key, value = (each.to(torch.get_autocast_dtype(device)) for each in (query, key, value))
    # Inside a compiled layer it is compiled with the layer.
    attend = flex_attention if torch.compiler.is_compiling() else _compiled()
    out: Any = attend(
        query, key, value, block_mask=attention_mask, scale=more.get("scaling"), enable_gqa=True
    )
    return out.transpose(1, 2).contiguous(), None


@functools.cache
def _compiled() -> Any:
    # Beyond the limit it would run uncompiled, and compute all pairs in fp32: fullgraph makes that an error.
    config: Any = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, _KERNELS)
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)
