"""A merged copy of an adapter's layers, to sample from while the adapter is trained.

A LoRA layer adds six operations to each linear layer, which cost a step of one token more than the step
itself. Their sum with the base's weights costs nothing. The base's weights are left as they are: others
answer with them, and merging and unmerging in place would not give them back to the bit. The copy takes as
much memory as the adapted layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from peft.tuners.tuners_utils import BaseTunerLayer
from torch.nn.functional import linear


class MergedCopy:
    """The sum of the weights of `model`'s adapted linear layers and of their active adapters."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLinear)]
        self._copies: list[MergedWeight] = []

    @property
    def nbytes(self) -> int:
        """Memory of the copy in bytes, whether it is made or not."""
        weights = [_weight(layer) for layer in self._layers]
        return sum(weight.numel() * weight.element_size() for weight in weights)

    @torch.no_grad()
    def update(self) -> None:
        """Compute the sums anew, in float32, at the same addresses."""
        # Ordinary tensors, whoever makes them: those of inference mode could not be updated in training.
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

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within, the adapted layers compute with the copy of the last update, without gradients."""
        assert self._copies, "update the copy first"
        for layer, copy in zip(self._layers, self._copies, strict=True):
            # Shadows the method of the class; nothing else of the layer changes.
            layer.__dict__["forward"] = copy
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.__dict__["forward"]


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
