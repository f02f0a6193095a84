"""The weights that the policy samples with: a merged copy of them where memory allows, else the adapter in
each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl.models.utils import add_hooks, remove_hooks

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


@contextlib.contextmanager
def gathered_tower(model: Any, wrapped: Any) -> Iterator[None]:
    """Within, the weights that encode videos are gathered in this process. `wrapped`: the policy,
    which is trained, as DeepSpeed has it; `model`: the same without its adapter and DeepSpeed."""
    if not is_deepspeed_zero3_enabled():
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(model.model.visual.parameters())):
        # They would give its weights back after each video and gather them for the next, in which all
        # processes take part; but each has videos of its own, and not as many as the others.
        remove_hooks(wrapped)
        try:
            yield
        finally:
            add_hooks(wrapped)


def _memory(device: torch.device) -> int:
    """The device's memory in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    total: int = psutil.virtual_memory().total
    return total
