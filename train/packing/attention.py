"""Attention over rows with several parts: FlexAttention on a GPU, SDPA with a dense mask elsewhere.

With a dense mask SDPA computes all pairs of tokens, of which 15 to 30 % count in a GRPO group, and fewer in
packed documents, unless it is called by spans.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.utils._triton import has_triton
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from videopro.train.packing.masks import block_mask, dense_mask
from videopro.train.packing.spans import attend_by_spans, note_spans, spans_of
from videopro.train.packing.widths import bucketed

_KERNELS = 64
"""Compiled kernels that are kept. A run needs one for each width, with gradients and without."""
_COMPUTE_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class RowShape:
    """How rows with several parts are laid out for a device.

    Without a GPU a row is as wide as its tokens, and any length is as good as another.
    """

    buckets: bool = False
    """Widths are those of `bucketed`."""
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
        """The width of a batch whose longest row has so many tokens."""
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
