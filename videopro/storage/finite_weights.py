"""Checks weights for NaN and infinities, with which a model would answer every question alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

# torch is imported where it is needed: reports and the viewer use this package without it.
if TYPE_CHECKING:
    import torch


def non_finite(weights: Iterable[tuple[str, torch.Tensor]]) -> str | None:
    """The name of the first tensor that holds NaN or an infinity. Integer tensors (quantised weights), empty
    ones and those on the meta device are skipped."""
    import torch

    names: list[str] = []
    extremes: list[torch.Tensor] = []
    for name, tensor in weights:
        if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
            # torch cannot compare float8 values.
            values = tensor.detach() if tensor.element_size() > 1 else tensor.detach().to(torch.bfloat16)
            # One pass without a copy: min and max of NaN are NaN. On a CPU twenty times as fast as isfinite.
            names.append(name)
            extremes.append(torch.stack(torch.aminmax(values)).double().cpu())
    if not extremes:
        return None
    fine = torch.isfinite(torch.stack(extremes)).all(dim=1).tolist()
    return next((name for name, is_fine in zip(names, fine, strict=True) if not is_fine), None)


def non_finite_in(file: Path) -> str | None:
    """The same for a safetensors file, read tensor by tensor. Raises OSError or SafetensorError."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as stored:
        for name in stored.keys():  # noqa: SIM118
            if non_finite([(name, stored.get_tensor(name))]) is not None:
                return str(name)
    return None
