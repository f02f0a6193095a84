"""Compiled layers: the steps are those of the layers as they are, and only training passes are compiled."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from tests.support import sft_world as world
from videopro.train.runtime.layer_passes import CompiledLayers


def trained(output: Path, *, compiles: bool) -> tuple[dict[str, torch.Tensor], Any]:
    """The adapter after two epochs of two equal batches, with gradient checkpointing."""
    rows = [world.rows()[0]] * 2
    config = world.settings(output, num_train_epochs=2, gradient_checkpointing=True)
    made = world.trainer("qwen3_vl", config, rows)
    language = made._base.model.language_model
    if compiles:
        CompiledLayers(language, language.layers, backend="aot_eager")
    made.train()
    after = {n: w.detach().clone() for n, w in made.model.named_parameters() if w.requires_grad}
    return after, made


def test_steps_are_those_of_layers_as_they_are_and_layers_share_a_graph(tmp_path: Path) -> None:
    torch._dynamo.reset()
    plain, _ = trained(tmp_path, compiles=False)
    counters.clear()
    compiled, made = trained(tmp_path, compiles=True)
    assert counters["stats"]["unique_graphs"] == 1
    for name, weight in compiled.items():
        torch.testing.assert_close(weight, plain[name], atol=1e-5, rtol=1e-4, msg=name)
    assert any(weight.any() for name, weight in compiled.items() if "lora_B" in name)
    # No other pass is compiled.
    run = functools.partial(made.model, **world.batch("qwen3_vl", [1]))
    with torch.no_grad():
        run()
        made.model.eval()
        run()
    assert counters["stats"]["unique_graphs"] == 1
