"""Whether weights are numbers: no NaN and no infinity, by which a model would answer everything alike.

Knows tensors; nothing of models or where weights come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import safe_open


def non_finite(weights: Iterable[tuple[str, torch.Tensor]]) -> str | None:
    """The name of the first tensor that holds NaN or an infinity. Tensors of whole numbers (quantised
    weights) and those without values are passed over."""
    names: list[str] = []
    ends: list[torch.Tensor] = []
    for name, tensor in weights:
        if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
            # Float8 has no order of its own in torch.
            values = tensor.detach() if tensor.element_size() > 1 else tensor.detach().to(torch.bfloat16)
            # One pass without a copy: both ends of NaN are NaN. On a CPU twenty times as fast as isfinite.
            names.append(name)
            ends.append(torch.stack(torch.aminmax(values)).double().cpu())
    if not ends:
        return None
    fine = torch.isfinite(torch.stack(ends)).all(dim=1).tolist()
    return next((name for name, is_fine in zip(names, fine, strict=True) if not is_fine), None)


def non_finite_in(file: Path) -> str | None:
    """The first such tensor in a safetensors file, read one by one. Raises OSError or SafetensorError."""
    with safe_open(file, framework="pt") as stored:
        for name in stored.keys():  # noqa: SIM118
            if non_finite([(name, stored.get_tensor(name))]) is not None:
                return str(name)
    return None
