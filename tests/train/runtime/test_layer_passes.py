"""How the language model's layers are passed: computed again, and with LoRA under autocast."""

import functools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from videopro.train.runtime.layer_passes import FittingCheckpoints, leave_casts_to_autocast

WIDTH, LAYERS = 16, 4
KEPT = 2 * WIDTH * 4
"""Bytes a token that a layer keeps: the outputs of tanh and of sigmoid, in fp32."""


class Layer(GradientCheckpointingLayer):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)
        self.inner.weight.requires_grad_(False)
        self.passes = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        return x + self.inner(x).tanh().sigmoid()


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        for layer in self.layers:
            layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=False)
            layer.gradient_checkpointing = True

    def forward(self, inputs_embeds: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return inputs_embeds


@dataclass
class Memory:
    """A device of which 1,000 bytes are taken, and `rest` bytes a token in a pass beside what is kept."""

    free: float = 0
    rest: int = 200
    tokens: int = 0
    resets: list[int] = field(default_factory=list)

    def allocated(self) -> int:
        return 1000

    def peak(self) -> int:
        return 1000 + self.tokens * (self.rest + KEPT)

    def reset_peak(self) -> None:
        self.resets.append(1)

    def limit(self) -> int:
        # Nine tenths are planned with, and 1,000 bytes are taken.
        return int((self.free + 1000) / 0.9) + 1


def passed(language: Language, tokens: int) -> tuple[list[int], torch.Tensor]:
    """How often each layer is computed in a training pass, and the gradient of its input."""
    draw = torch.Generator().manual_seed(tokens)
    x = torch.randn(1, tokens, WIDTH, generator=draw).requires_grad_()
    for layer in language.layers:
        layer.passes = 0
    language(inputs_embeds=x).square().sum().backward()
    assert x.grad is not None
    return [layer.passes for layer in language.layers], x.grad


@pytest.mark.parametrize(
    ("free_a_token", "expected"),
    [(0, [2, 2, 2, 2]), (200 + 3 * KEPT - 1, [2, 2, 1, 1]), (200 + 4 * KEPT, [1, 1, 1, 1])],
)
def test_as_many_layers_are_kept_as_fit(free_a_token: int, expected: list[int]) -> None:
    memory, lines = Memory(), []
    language = Language()
    FittingCheckpoints(language, language.layers, memory, tell=lines.append)
    # In the first pass one layer is measured.
    memory.tokens = 10
    assert passed(language, 10)[0] == [2, 2, 2, 1]
    memory.free = 10 * free_a_token
    assert passed(language, 10)[0] == expected
    (line,) = lines
    assert f"{expected.count(2)} of 4 layers are recomputed" in line
    # Twice the tokens, in the same memory.
    memory.free = 20 * (200 + KEPT)
    assert passed(language, 20)[0] == [2, 2, 2, 1]
    assert len(lines) == len(memory.resets) == 1


def test_gradients_are_the_same_whatever_is_computed_again() -> None:
    plain = passed(Language(), 10)
    assert plain[0] == [2] * LAYERS
    memory = Memory(tokens=10, free=10**6)
    language = Language()
    FittingCheckpoints(language, language.layers, memory, tell=lambda _: None)
    for _ in range(2):
        assert torch.equal(passed(language, 10)[1], plain[1])

    # Passes without gradients decide nothing.
    memory, language = Memory(tokens=10), Language()
    FittingCheckpoints(language, language.layers, memory)
    with torch.no_grad():
        language(inputs_embeds=torch.zeros(1, 3, WIDTH))
    language.eval()
    language(inputs_embeds=torch.zeros(1, 3, WIDTH))
    assert not memory.resets


PROJECTIONS = ("q", "k", "v")


class Projections(nn.Module):
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
    return get_peft_model(Projections().to(torch.bfloat16), settings).train()


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


def test_without_autocast_a_layer_computes_as_before() -> None:
    x = torch.randn(5, 32).to(torch.bfloat16)
    outputs = []
    for ours in (False, True):
        model = adapted(0.5)
        if ours:
            leave_casts_to_autocast(model)
        torch.manual_seed(2)
        outputs.append(model(x))
    assert torch.equal(*outputs)
