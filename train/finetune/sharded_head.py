"""Gathers the language model's head, with correct gradients, when FSDP shards it.

TRL's losses use the head's weights without calling the head. TRL gathers sharded weights, but each rank's
shard then gets the gradients of its own rows only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor, Partial
from transformers import PreTrainedModel


@contextmanager
def gather_head(model: PreTrainedModel) -> Iterator[None]:
    """Within, the weights of `model.get_output_embeddings()` are gathered from all ranks, and their gradients
    averaged over the ranks, as FSDP does."""
    find: Any = model.get_output_embeddings

    def gathered() -> SimpleNamespace:
        head = find()
        return SimpleNamespace(weight=_full_tensor(head.weight), bias=_full_tensor(head.bias))

    model.get_output_embeddings = gathered  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.get_output_embeddings


def _full_tensor(weight: Tensor | None) -> Tensor | None:
    if not isinstance(weight, DTensor):
        return weight
    return weight.full_tensor(grad_placements=[Partial("avg")] * weight.device_mesh.ndim)
