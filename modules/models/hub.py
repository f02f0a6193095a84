"""Loading a model and its processor from the hub or a local directory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from safetensors import SafetensorError

from videopro.backbones import hide_weights_bar
from videopro.errors import check_cancelled
from videopro.modules.errors import ModelError


def load_pretrained(name: str, role: str, model_class: Any, processor_class: Any) -> tuple[Any, Any]:
    """Load (model, processor) from a hub name or a local directory. Raises ModelError if one of them cannot
    be loaded; `role` describes the model in its message."""
    hide_weights_bar()
    try:
        # The processor first: it is small, and fails before gigabytes of weights are loaded.
        processor = processor_class.from_pretrained(name)
        model = model_class.from_pretrained(name)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        # Of transformers' advice, which may be about another kind of model, only the problem.
        reason = str(error).strip().split("\n")[0].split(". ")[0].removesuffix(f": {name!r}")
        reason = reason[:300] or type(error).__name__
        raise ModelError(
            f"{role} {name!r} cannot be loaded ({reason}); pass a hub name that can be downloaded or is in "
            "the cache, or the directory of a checkpoint"
        ) from error
    check_finite(f"{role} {name!r}", model.named_parameters())
    stop_between_layers(model)
    return model, processor


def stop_between_layers(model: Any) -> None:
    """Let a pass of the model end between two of its layers once the work of its thread is cancelled. A pass
    takes seconds where the processor is busy: nobody should have to wait for all of it."""
    from torch.nn import ModuleList, Sequential

    for module in model.modules():
        if isinstance(module, ModuleList | Sequential):
            for layer in module:
                layer.register_forward_pre_hook(_check_cancelled)


def _check_cancelled(layer: Any, inputs: Any) -> None:
    check_cancelled()


def check_finite(subject: str, weights: Iterable[tuple[str, Any]]) -> None:
    """Raise ModelError with the tensor's name if any of the (name, tensor) pairs holds NaN or infinities."""
    from videopro.storage import non_finite

    damaged = non_finite(weights)
    if damaged is not None:
        raise ModelError(
            f"{subject} is damaged: its tensor {damaged} contains NaN or infinite weights; download or save "
            "the checkpoint again"
        )


def device_of(device: str | None) -> str:
    """`device` if it is given, else the thread's current accelerator, by its number, else "cpu"."""
    import torch

    if device is not None:
        return device
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return "cpu"
    # Without a number it would be another one in each thread whose current one is another.
    return f"{accelerator.type}:{torch.accelerator.current_device_index()}"
