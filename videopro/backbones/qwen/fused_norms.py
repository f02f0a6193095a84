"""RMS norms by torch's one kernel in place of the library's six, for steps whose time is the number of their
kernels.

Equal up to rounding: the weight is multiplied before the result is rounded to 16 bits, and not after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import rms_norm


@contextmanager
def fused_norms(model: torch.nn.Module, *, enabled: bool) -> Iterator[None]:
    """Within, Qwen's RMS norms are computed by `torch.nn.functional.rms_norm`, if `enabled`."""
    norms = [module for module in model.modules() if _is_rms_norm(module)] if enabled else []
    for norm in norms:
        # Shadows the method of the class; nothing else of the layer changes.
        norm.__dict__["forward"] = _Fused(norm)
    try:
        yield
    finally:
        for norm in norms:
            del norm.__dict__["forward"]


def _is_rms_norm(module: Any) -> bool:
    """Whether it is the norm of Qwen2 to Qwen3-VL: others, such as Qwen3.5's, add one to their weight."""
    return type(module).__name__ in _NORMS


_NORMS = ("Qwen2RMSNorm", "Qwen2_5_VLRMSNorm", "Qwen3VLTextRMSNorm", "Qwen3VLMoeTextRMSNorm")


class _Fused:
    def __init__(self, norm: Any) -> None:
        self._weight = norm.weight
        self._epsilon = norm.variance_epsilon

    def __call__(self, hidden_states: torch.Tensor) -> torch.Tensor:
        size = (hidden_states.shape[-1],)
        # torch 2.12 and newer compute it in float32 under autocast, and leave the result so; keys and values
        # in 16 bits take none of that. The kernel sums in float32 in any case.
        with torch.autocast(hidden_states.device.type, enabled=False):
            return rms_norm(hidden_states, size, self._weight, self._epsilon)
