"""The adapter in training as files that an engine loads.

Under ZeRO-3 its weights are gathered in every process, of which each writes them for its own engine.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

_SPREAD = 0.05
_SEED = 0


def write_adapter(model: Any, folder: Path) -> None:
    """Write the adapter of a PEFT model into a folder."""
    _write(model, _weights(model), folder)


def write_random_adapter(model: Any, folder: Path) -> None:
    """Write an adapter of the same form that changes every reply, whatever the one in training does: a new
    one changes nothing."""
    generator = torch.Generator().manual_seed(_SEED)
    weights = {
        name: torch.randn(weight.shape, generator=generator).to(weight.dtype) * _SPREAD
        if "lora_B" in name
        else weight
        for name, weight in _weights(model).items()
    }
    _write(model, weights, folder)


def _weights(model: Any) -> dict[str, torch.Tensor]:
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    gathered: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if is_deepspeed_zero3_enabled():
        import deepspeed

        gathered = deepspeed.zero.GatheredParameters(trained)
    with gathered:
        # Not by save_pretrained, which asks the hub for the base's config.
        weights = get_peft_model_state_dict(model, save_embedding_layers=False)
        return {name: weight.detach().cpu().clone().contiguous() for name, weight in weights.items()}


def _write(model: Any, weights: dict[str, torch.Tensor], folder: Path) -> None:
    save_file(weights, folder / "adapter_model.safetensors")
    settings = model.peft_config[model.active_adapter]
    settings.save_pretrained(str(folder))
