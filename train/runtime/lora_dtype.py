"""LoRA computed in 16 bits under autocast, with adapters in fp32.

PEFT casts a layer's input to its adapter's fp32, and autocast casts it back to 16 bits for each product. The
values are the same without either, but each of a layer's adapters would keep a copy of its input for the
backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch import nn


def leave_casts_to_autocast(model: nn.Module) -> None:
    """Give the model's LoRA layers their input as it is, wherever autocast casts both factors of a product.
    Outside of autocast PEFT casts as before."""
    for module in model.modules():
        if isinstance(module, LoraLayer):
            layer: Any = module
            layer._cast_input_dtype = _cast_outside_of_autocast


def _cast_outside_of_autocast(x: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    if x is None or torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(dtype)
