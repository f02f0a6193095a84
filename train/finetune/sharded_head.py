"""The language model's head, whole and with right gradients, where FSDP spreads its weights.

TRL's losses take the head's weights without calling the head. Weights that are spread are gathered by TRL,
but each rank's part of them gets the gradients of its own rows alone. Knows FSDP2's tensors; must not know
losses.
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
    are averaged over them, as FSDP's are."""
    find: Any = model.get_output_embeddings

    def gathered() -> SimpleNamespace:
        head = find()
        return SimpleNamespace(weight=_whole(head.weight), bias=_whole(head.bias))

    model.get_output_embeddings = gathered  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.get_output_embeddings


def _whole(weight: Tensor | None) -> Tensor | None:
    if not isinstance(weight, DTensor):
        return weight
    return weight.full_tensor(grad_placements=[Partial("avg")] * weight.device_mesh.ndim)
