"""Whether an adapter fits its base, found out without any weights in memory.

Engines load an adapter whose names do not match as nothing, without an error (vLLM issues 34186, 48022).
"""

from __future__ import annotations

import warnings

import torch
from transformers import AutoModelForImageTextToText

from videopro.backbones.qwen.find import find_checkpoint
from videopro.backbones.qwen.load import attach_adapter


def check_adapter_fits(adapter: str, model: str) -> None:
    """Raise BackboneError unless the adapter's weights are those of modules that the model has."""
    checkpoint = find_checkpoint(model)
    with torch.device("meta"):
        empty = AutoModelForImageTextToText.from_config(checkpoint.settings)
    with warnings.catch_warnings():
        # Copying weights into a model without any does nothing, and torch says so for each of them. peft
        # warns of what is missing, which is raised as an error.
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter")
        warnings.filterwarnings("ignore", message="Found missing adapter keys")
        attach_adapter(empty, adapter, model)
