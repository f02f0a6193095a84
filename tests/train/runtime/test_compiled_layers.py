"""Compiled layers: the steps are those of the layers as they are, and only training passes are compiled."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from tests.support import sft_world as world
from tests.support.training_runs import trained_weights
from videopro.train.runtime.layer_passes import CompiledLayers


def test_steps_are_those_of_layers_as_they_are_and_layers_share_a_graph(tmp_path: Path) -> None:
    """Two epochs of two equal batches, with gradient checkpointing."""
    torch._dynamo.reset()
    counters.clear()
    after = []
    for compiles in (False, True):
        config = world.settings(tmp_path, num_train_epochs=2, gradient_checkpointing=True)
        made: Any = world.trainer("qwen3_vl", config, [world.rows()[0]] * 2)
        language = made._base.model.language_model
        if compiles:
            CompiledLayers(language, language.layers, backend="aot_eager")
        made.train()
        after.append(trained_weights(made))
    assert counters["stats"]["unique_graphs"] == 1
    torch.testing.assert_close(after[1], after[0], atol=1e-5, rtol=1e-4)
    assert any(weight.any() for name, weight in after[1].items() if "lora_B" in name)
    # No other pass is compiled.
    run = functools.partial(made.model, **world.batch("qwen3_vl", [1]))
    with torch.no_grad():
        run()
        made.model.eval()
        run()
    assert counters["stats"]["unique_graphs"] == 1
