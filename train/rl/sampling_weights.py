"""The weights that the policy samples with: a merged copy of them where memory allows, else the adapter in
each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psutil
import torch

from videopro.backbones.qwen import MergedCopy, can_copy

_SHARE = 0.25
"""The copy may take this share of the device's memory: beside it are the model itself and what an update
needs."""


class SamplingWeights:
    """The policy's adapted layers while replies are sampled. `is_unsharded`: this process has all weights, at
    addresses that stay, as it has without ZeRO-3 and FSDP."""

    def __init__(self, model: Any, device: torch.device, *, is_unsharded: bool) -> None:
        self.copy: MergedCopy | None = None
        if is_unsharded and can_copy(model):
            copy = MergedCopy(model)
            if copy.nbytes <= _SHARE * _memory(device):
                self.copy = copy

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Within, the policy computes with its weights of this moment, without gradients."""
        if self.copy is None:
            yield
            return
        self.copy.update()
        with self.copy.in_use():
            yield


def _memory(device: torch.device) -> int:
    """The device's memory in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    total: int = psutil.virtual_memory().total
    return total
