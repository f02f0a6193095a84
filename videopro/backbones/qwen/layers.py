"""Layers that compute faster than the library's, and equal up to rounding: the vision tower's attention, RMS
norms, and adapted linear layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psutil
import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from peft.tuners.tuners_utils import BaseTunerLayer
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

# transformers hands all chunks at once only to what it takes for flash attention, by "flash" in its name.
_NAME = "videopro_flash_chunks"


@dataclass(frozen=True)
class _Groups:
    """Chunks that differ in length, grouped by it."""

    order: torch.Tensor
    """(tokens,): tokens by the length of their chunk."""
    inverse: torch.Tensor
    """(tokens,): the index of each token in `order`."""
    sizes: tuple[tuple[int, int], ...]
    """How many chunks of which length, in that order."""


def attend_by_chunk(model: PreTrainedModel) -> None:
    """Let the vision tower of a model that uses torch's attention compute it in one call for all chunks of
    one length (a pair of frames, an image, a window); others stay.

    transformers computes it chunk by chunk in Python: for 64 frames and 27 layers that is 864 calls, and
    three waits for the device a layer.
    """
    core: Any = model.model
    if core.visual.config._attn_implementation == "sdpa":
        core.visual.config._attn_implementation = _NAME


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of (1, heads, tokens, size) within the chunks that begin and end at `cu_seq_lens_q`,
    (chunks + 1,), the longest of which has `max_length_q` tokens. Returns (1, tokens, heads, size)."""
    tensors = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    chunks = len(cu_seq_lens_q) - 1
    if chunks * max_length_q == len(tensors[0]):
        return _equal(tensors, max_length_q, scaling, dropout)[None], None
    groups = _groups(cu_seq_lens_q)
    sorted_tensors = [tensor[groups.order] for tensor in tensors]
    counts = [count * length for count, length in groups.sizes]
    parts = zip(*(tensor.split(counts) for tensor in sorted_tensors), strict=True)
    outputs = [
        _equal(part, length, scaling, dropout) for part, (_, length) in zip(parts, groups.sizes, strict=True)
    ]
    return torch.cat(outputs)[groups.inverse][None], None


def _equal(tensors: Any, length: int, scaling: float | None, dropout: float) -> torch.Tensor:
    """Attention within chunks of one length: query, key and value, (tokens, heads, size)."""
    query, key, value = (tensor.unflatten(0, (-1, length)).transpose(1, 2) for tensor in tensors)
    output: torch.Tensor = scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling)
    return output.transpose(1, 2).flatten(0, 1)


def _groups(bounds: torch.Tensor) -> _Groups:
    """The chunks' groups, computed once for all layers: they share the tensor, and each reading of it waits
    for the device."""
    stored: _Groups | None = getattr(bounds, "_videopro_groups", None)
    if stored is None:
        by_length: dict[int, list[int]] = {}
        for start, stop in pairwise(bounds.tolist()):
            by_length.setdefault(stop - start, []).append(start)
        order = torch.cat(
            [
                (torch.tensor(begins)[:, None] + torch.arange(length)).flatten()
                for length, begins in by_length.items()
            ]
        )
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order))
        sizes = tuple((len(begins), length) for length, begins in by_length.items())
        stored = _Groups(order.to(bounds.device), inverse.to(bounds.device), sizes)
        bounds._videopro_groups = stored  # type: ignore[attr-defined]
    return stored


AttentionInterface.register(_NAME, _attend)


@contextmanager
def fused_norms(model: torch.nn.Module, *, enabled: bool) -> Iterator[None]:
    """Within, Qwen's RMS norms are computed by torch's one kernel in place of the library's six, if
    `enabled`: for steps whose time is the number of their kernels. The weight is multiplied before the result
    is rounded to 16 bits, and not after."""
    norms = [module for module in model.modules() if _is_rms_norm(module)] if enabled else []
    for norm in norms:
        # Shadows the method of the class; nothing else of the layer changes.
        norm.__dict__["forward"] = _Fused(norm)
    try:
        yield
    finally:
        for norm in norms:
            del norm.__dict__["forward"]


def _is_rms_norm(module: Any) -> bool:
    """Whether it is the norm of Qwen2 to Qwen3-VL: others, such as Qwen3.5's, add one to their weight."""
    return type(module).__name__ in _NORMS


_NORMS = ("Qwen2RMSNorm", "Qwen2_5_VLRMSNorm", "Qwen3VLTextRMSNorm", "Qwen3VLMoeTextRMSNorm")


class _Fused:
    def __init__(self, norm: Any) -> None:
        self._weight = norm.weight
        self._epsilon = norm.variance_epsilon

    def __call__(self, hidden_states: torch.Tensor) -> torch.Tensor:
        size = (hidden_states.shape[-1],)
        # torch 2.12 and newer compute it in float32 under autocast, and leave the result so; keys and values
        # in 16 bits take none of that. The kernel sums in float32 in any case.
        with torch.autocast(hidden_states.device.type, enabled=False):
            return rms_norm(hidden_states, size, self._weight, self._epsilon)


_SHARE_OF_FREE = 4
"""A merged copy may take this part of the free memory: replies, and in training an update, need the rest."""


class MergedCopy:
    """The sum of the weights of `model`'s adapted linear layers and of their active adapters, to write
    replies with.

    A LoRA layer adds six operations to each linear layer, which cost a step of one token more than the step
    itself. The base's weights do not change: others answer with them, and merging and unmerging in
    place would not give them back to the bit. The copy takes as much memory as the adapted layers. In 16 bits
    the sums are rounded to the model's type, where the layers of an adapter compute in float32.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLinear)]
        self._copies: list[MergedWeight] = []

    @classmethod
    def where_it_fits(cls, model: torch.nn.Module) -> MergedCopy | None:
        """A copy of what computes as the adapter does (`can_copy`), on one device with memory for it."""
        copy = cls(model)
        devices = {_weight(layer).device for layer in copy._layers}
        if not can_copy(model) or len(devices) > 1:
            return None
        return copy if copy.nbytes <= free_bytes(*devices) // _SHARE_OF_FREE else None

    @property
    def nbytes(self) -> int:
        """Memory of the copy in bytes, whether it is made or not."""
        weights = [_weight(layer) for layer in self._layers]
        return sum(weight.numel() * weight.element_size() for weight in weights)

    @torch.no_grad()
    def update(self) -> None:
        """Compute the sums anew, in float32, at the same addresses."""
        # Always ordinary tensors: those of inference mode could not be updated in training.
        with torch.inference_mode(False):
            if not self._copies:
                self._copies = [
                    MergedWeight(torch.empty_like(_weight(layer)), layer.get_base_layer().bias)
                    for layer in self._layers
                ]
            for layer, copy in zip(self._layers, self._copies, strict=True):
                total = _weight(layer).float()
                for name in layer.active_adapters:
                    if name in layer.lora_A:
                        total = total + _float_delta(layer, name)
                copy.weight.copy_(total)

    def use(self, enabled: bool) -> None:
        """Let the adapted layers compute with the copy of the last update, without gradients, or not."""
        assert self._copies, "update the copy first"
        for layer, copy in zip(self._layers, self._copies, strict=True):
            # Shadows the method of the class; nothing else of the layer changes.
            if enabled:
                layer.__dict__["forward"] = copy
            else:
                layer.__dict__.pop("forward", None)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within, the copy is used."""
        self.use(True)
        try:
            yield
        finally:
            self.use(False)


def free_bytes(device: torch.device) -> int:
    """Memory that more tensors can take: on a GPU, what this process has reserved and does not use too."""
    if device.type != "cuda":
        return int(psutil.virtual_memory().available)
    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserved


def can_copy(model: torch.nn.Module) -> bool:
    """Whether a merged copy computes what the adapter does: it has plain LoRA layers on linear layers in
    float, and none of another kind."""
    adapted = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    return bool(adapted) and all(_is_plain(layer) for layer in adapted)


def _is_plain(layer: Any) -> bool:
    is_linear = type(layer) is LoraLinear and type(layer.get_base_layer()) is torch.nn.Linear
    # Variants, such as DoRA, are more than a sum; a shard of a weight has no elements.
    return (
        is_linear
        and not layer.merged
        and not layer.lora_variant
        and not layer.lora_bias.get(layer.active_adapter[0], False)
        and _weight(layer).is_floating_point()
        and _weight(layer).dim() == 2
    )


class MergedWeight:
    """The forward of an adapted layer, by its merged `weight`."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight = weight
        self._bias = bias

    def __call__(self, inputs: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
        return linear(inputs, self.weight, self._bias)


def _weight(layer: Any) -> torch.Tensor:
    weight: torch.Tensor = layer.get_base_layer().weight
    return weight


def _float_delta(layer: Any, name: str) -> torch.Tensor:
    before, after = layer.lora_A[name].weight.float(), layer.lora_B[name].weight.float()
    delta: torch.Tensor = after @ before * layer.scaling[name]
    return delta.T if layer.fan_in_fan_out else delta
