"""Loading a model and its processor from the hub or a folder, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from safetensors import SafetensorError

from videopro.modules.errors import ModelError


def load_pretrained(name: str, what: str, model_class: Any, processor_class: Any) -> tuple[Any, Any]:
    """(model, processor) of a hub name or folder. ModelError names both and the mend."""
    try:
        processor = processor_class.from_pretrained(name)
        model = model_class.from_pretrained(name)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
        raise ModelError(
            f"{what} {name!r} cannot be loaded: {reason}. Give a hub name that can be reached (or is in the "
            "cache), or the folder of a checkpoint of this kind"
        ) from error
    check_finite(f"{what} {name!r}", model.named_parameters())
    return model, processor


def check_finite(what: str, weights: Iterable[tuple[str, Any]]) -> None:
    """Raise ModelError, naming the tensor, for weights (by name) that hold NaN or infinities."""
    from videopro.storage.finite_weights import non_finite

    damaged = non_finite(weights)
    if damaged is not None:
        raise ModelError(
            f"{what} is damaged: its tensor {damaged} holds NaN or infinite weights; download or save the "
            "checkpoint again"
        )


def device_of(device: str | None) -> str:
    """The device that was named, else the first accelerator, else the CPU."""
    import torch

    if device is not None:
        return device
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return str(found) if found is not None else "cpu"
