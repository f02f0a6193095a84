"""The adapter in training as files that an engine loads.

Under ZeRO-3 its weights are gathered in every process; those write them that have started an engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.errors import writing

_SPREAD = 0.05
_SEED = 0


Weights = Mapping[str, torch.Tensor]
"""Of an adapter, by the names in its file."""


def adapter_weights(model: Any, *, needed: bool = True) -> Weights:
    """Copies of the weights of a PEFT model's adapter. Called in every process; empty where they are not
    `needed`."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    gathered: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if is_deepspeed_zero3_enabled():
        import deepspeed

        gathered = deepspeed.zero.GatheredParameters(trained)
    with gathered:
        if not needed:
            return {}
        # Not by save_pretrained, which asks the hub for the base's config.
        weights = get_peft_model_state_dict(model, save_embedding_layers=False)
        return {name: weight.detach().cpu().clone().contiguous() for name, weight in weights.items()}


def random_weights(weights: Weights) -> Weights:
    """Weights of the same form that change every reply, whatever these do: those of a new adapter change
    nothing."""
    generator = torch.Generator().manual_seed(_SEED)
    return {
        name: torch.randn(weight.shape, generator=generator).to(weight.dtype) * _SPREAD
        if "lora_B" in name
        else weight
        for name, weight in weights.items()
    }


def write_adapter(model: Any, weights: Weights, folder: Path) -> None:
    """Write an adapter with these weights and the settings of a PEFT model's into a folder. Raises RunError
    if the disk, or the memory that stands for one, does not take it."""
    # safetensors has an error of its own for a full disk, which is no OSError.
    with writing("the adapter for the engine", folder, then="re-run the same command to resume"):
        save_file(dict(weights), folder / "adapter_model.safetensors")
        settings = model.peft_config[model.active_adapter]
        settings.save_pretrained(str(folder))
