"""Whether an adapter fits its base, and an engine, found out without any weights in memory.

Engines load an adapter whose names do not match as nothing, without an error (vLLM issues 34186, 48022). In
the same way they leave out what one adapts beside the language model.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from transformers import AutoModelForImageTextToText

from videopro.backbones.qwen.find import find_checkpoint
from videopro.backbones.qwen.load import attach_adapter
from videopro.errors import ConfigError

# In the names of both: a Qwen model's projector is a part of its vision tower there.
_VISUAL = ".visual."


def check_adapter_fits(adapter: str, model: str) -> list[str]:
    """The names of the adapter's weights in a model. Raises BackboneError unless they are those of modules
    that the model has."""
    checkpoint = find_checkpoint(model)
    with torch.device("meta"):
        empty = AutoModelForImageTextToText.from_config(checkpoint.settings)
    with warnings.catch_warnings():
        # Copying weights into a model without any does nothing, and torch says so for each of them. peft
        # warns of what is missing, which is raised as an error.
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter")
        warnings.filterwarnings("ignore", message="Found missing adapter keys")
        adapted = attach_adapter(empty, adapter, model)
    # The adapter's own carry its name.
    return [name for name, _ in adapted.named_parameters() if ".default" in name]


def check_language_only(names: Iterable[str], adapter: str, instead: str) -> None:
    """Raise ConfigError if a weight of an adapter belongs to the vision tower or to the projector, whose
    adapters vLLM leaves out. `names`: of its weights in a model; `adapter`: what it is, for the message."""
    beside = next((name for name in names if _VISUAL in f".{name}"), None)
    if beside is not None:
        raise ConfigError(
            f"{adapter} adapts more than the language model ({beside}), which vLLM would leave out; {instead}"
        )
