"""How many layers are computed again in the backward pass: by what a layer keeps and what is free."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from videopro.train.runtime.layer_passes import FittingCheckpoints, LayerCosts

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
    [
        (0, [2, 2, 2, 2]),
        (200 + KEPT, [2, 2, 2, 1]),
        (200 + 3 * KEPT - 1, [2, 2, 1, 1]),
        (200 + 4 * KEPT, [1, 1, 1, 1]),
        (10**6, [1, 1, 1, 1]),
    ],
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
    assert f"{expected.count(2)} of 4 layers are computed again" in line
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


def test_costs() -> None:
    """A pass of 100 tokens takes 500 bytes anyway, and 300 for each layer that it keeps."""
    costs = LayerCosts(activations=3, transient=5)
    fits: Any = [costs.layers_that_fit(100, free) for free in (0, 500, 799, 800, 1100, 9500)]
    assert fits == [0, 0, 0, 1, 2, 30]
