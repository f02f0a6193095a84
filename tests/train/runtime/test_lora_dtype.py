"""LoRA under autocast: the values and gradients are PEFT's to the bit, and no copy of an input is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from torch import nn

from videopro.train.runtime.layer_passes import leave_casts_to_autocast

PROJECTIONS = ("q", "k", "v")


class Layer(nn.Module):
    """Three projections of one input, as in an attention layer."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(32, 32, bias=False) for name in PROJECTIONS})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum((part(x) for part in self.parts.values()), start=torch.zeros(()))


def adapted(dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    settings = LoraConfig(
        r=4, target_modules=list(PROJECTIONS), lora_dropout=dropout, init_lora_weights=False
    )
    return get_peft_model(Layer().to(torch.bfloat16), settings).train()


def stepped(model: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """The output, the adapter's gradients, and the bytes of inputs that are kept for the backward pass."""
    x = torch.randn(7, 32, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape == x.shape:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16),
    ):
        out = model(x)
    out.float().square().sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    return out, gradients, sum(kept.values())


def test_values_and_gradients_are_the_same_and_the_input_is_kept_once() -> None:
    out, gradients, kept = stepped(adapted())
    model = adapted()
    leave_casts_to_autocast(model)
    ours, our_gradients, our_kept = stepped(model)
    assert torch.equal(ours, out)
    assert our_gradients.keys() == gradients.keys()
    assert all(torch.equal(gradient, our_gradients[name]) for name, gradient in gradients.items())
    # One input for three layers, where each had its copy; the output's gradient needs none.
    assert (kept, our_kept) == (3 * 7 * 32 * 2, 7 * 32 * 2)
    # Adapters stay in full precision.
    assert {weight.dtype for weight in get_peft_model_state_dict(model).values()} == {torch.float32}
    assert {gradient.dtype for gradient in our_gradients.values()} == {torch.float32}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_without_autocast_a_layer_computes_as_before(dropout: float) -> None:
    x = torch.randn(5, 32).to(torch.bfloat16)
    outputs = []
    for ours in (False, True):
        model = adapted(dropout)
        if ours:
            leave_casts_to_autocast(model)
        torch.manual_seed(2)
        outputs.append(model(x))
    assert torch.equal(*outputs)
