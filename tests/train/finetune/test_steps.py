"""Fine-tuning steps: the same however a batch is split, and the same as the gradients that transformers' own
forward gives; which weights take part in them, and at which rates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from transformers import PreTrainedModel

from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint, reference
from tests.support.sft_reference import EVERYTHING, PLAIN, RATE, assert_same, expected_step
from videopro.backbones.qwen import find_checkpoint
from videopro.errors import ConfigError
from videopro.train.runtime import load_trainable, part_of
from videopro.train.runtime.trainable import choose_trained, linear_pattern

FAMILIES = ("qwen2_5_vl", "qwen3_vl")


def stepped(family: str, output: Path, chosen: list[int], **changes: Any) -> tuple[float, dict[str, Any]]:
    """The loss of one SGD step on the rows with these numbers, and the weights after it."""
    rows = [world.rows()[number] for number in chosen]
    config = world.settings(output, **{**PLAIN, **EVERYTHING, **changes})
    trainer = world.trainer(family, config, rows, use_peft=False)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return losses[0], dict(trainer.model.named_parameters())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("size", "accumulated"),
    [pytest.param(4, 1, marks=pytest.mark.long), (2, 2), pytest.param(1, 4, marks=pytest.mark.long)],
)
def test_a_step_is_the_mean_over_tokens_however_the_batch_is_split(
    family: str, size: int, accumulated: int, tmp_path: Path
) -> None:
    loss, weights = stepped(
        family,
        tmp_path,
        [0, 1, 2, 3],
        per_device_train_batch_size=size,
        gradient_accumulation_steps=accumulated,
    )
    expected_loss, expected = expected_step(family, [0, 1, 2, 3])
    assert loss == pytest.approx(expected_loss, abs=1e-4)
    assert_same(weights, expected)


def test_with_gradient_checkpointing_a_step_is_the_same(tmp_path: Path) -> None:
    loss, weights = stepped(
        "qwen3_vl", tmp_path, [0, 3], per_device_train_batch_size=2, gradient_checkpointing=True
    )
    expected_loss, expected = expected_step("qwen3_vl", [0, 3])
    assert loss == pytest.approx(expected_loss, abs=1e-4)
    assert_same(weights, expected)


def test_a_step_on_text_alone(tmp_path: Path) -> None:
    loss, weights = stepped("qwen3_vl", tmp_path, [3], per_device_train_batch_size=1)
    expected_loss, expected = expected_step("qwen3_vl", [3])
    assert loss == pytest.approx(expected_loss, abs=1e-4)
    assert_same(weights, expected)


# ---- what is trained ---------------------------------------------------------------------------------------

_LAYER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def adapted(model: PreTrainedModel, pattern: str) -> set[str]:
    return {name for name, _ in model.named_modules() if re.fullmatch(pattern, name)}


@pytest.mark.parametrize("family", FAMILIES)
def test_lora_goes_to_every_linear_layer_of_the_language_model_and_to_no_other(family: str) -> None:
    model, _ = reference(family)
    language = {
        f"model.language_model.layers.{layer}.{'mlp' if name[0] in 'gud' else 'self_attn'}.{name}"
        for layer in range(2)
        for name in _LAYER
    }
    assert adapted(model, linear_pattern(model, ["language"])) == language
    tower = {
        "qwen3_vl": {
            f"model.visual.blocks.{i}.{name}"
            for i in range(2)
            for name in ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
        },
        "qwen2_5_vl": {
            f"model.visual.blocks.{i}.{name}"
            for i in range(2)
            for name in ("attn.qkv", "attn.proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
        },
    }[family]
    merger = {
        "qwen3_vl": {
            f"model.visual.{module}.linear_fc{i}"
            for module in ("merger", "deepstack_merger_list.0")
            for i in (1, 2)
        },
        "qwen2_5_vl": {"model.visual.merger.mlp.0", "model.visual.merger.mlp.2"},
    }[family]
    assert adapted(model, linear_pattern(model, ["vision"])) == tower
    assert adapted(model, linear_pattern(model, ["projector", "language"])) == merger | language


def test_parts_have_their_own_rates_and_what_is_frozen_stays(tmp_path: Path) -> None:
    rows = world.rows()
    config = world.settings(
        tmp_path, **{**PLAIN, "projector": "trained", "projector_lr": 0.01, "per_device_train_batch_size": 4}
    )
    trainer = world.trainer("qwen3_vl", config, rows, use_peft=False)
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    _, whole = expected_step("qwen3_vl", [0, 1, 2, 3])
    share = {"language": 1.0, "projector": 0.01 / RATE, "vision": 0.0}
    for name, weight in trainer.model.named_parameters():
        # The step that SGD takes is in proportion to the rate.
        expected = before[name] + share[part_of(name)] * (whole[name] - before[name])
        torch.testing.assert_close(weight.detach(), expected, atol=2e-5, rtol=1e-4, msg=name)
        if part_of(name) == "vision":
            assert torch.equal(weight, before[name])
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    rates = {
        (part_of(names[id(weight)]), group["initial_lr"])
        for group in trainer.optimizer.param_groups
        for weight in group["params"]
    }
    assert rates == {("language", RATE), ("projector", 0.01)}


def test_weight_decay_spares_norms_and_biases(tmp_path: Path) -> None:
    config = world.settings(tmp_path, weight_decay=0.1, max_steps=1)
    trainer = world.trainer("qwen3_vl", config, world.rows(), use_peft=False)
    groups = trainer.create_optimizer().param_groups
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    decayed = {
        names[id(weight)] for group in groups if group["weight_decay"] > 0 for weight in group["params"]
    }
    spared = {
        names[id(weight)] for group in groups if group["weight_decay"] == 0 for weight in group["params"]
    }
    assert "model.language_model.layers.0.mlp.up_proj.weight" in decayed
    assert "model.language_model.norm.weight" in spared
    assert not any("norm" in name for name in decayed)


def test_only_the_language_model_has_4_bit_weights() -> None:
    bnb = pytest.importorskip("bitsandbytes")
    settings = world.model_settings("qwen3_vl", load_in_4bit=True, dtype="float32")
    model = load_trainable(find_checkpoint(str(checkpoint("qwen3_vl"))), settings)
    small = {name for name, module in model.named_modules() if isinstance(module, bnb.nn.Linear4bit)}
    assert small == adapted(reference("qwen3_vl")[0], linear_pattern(reference("qwen3_vl")[0], ["language"]))


def test_an_adapter_names_its_base_as_the_run_did(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(checkpoint("qwen3_vl"))
    monkeypatch.chdir(folder.parent)
    settings = world.model_settings("qwen3_vl", model_name_or_path=folder.name)
    model = load_trainable(find_checkpoint(str(folder)), settings)
    tuned = get_peft_model(model, choose_trained(model, settings, ["language"]))
    assert tuned.peft_config["default"].base_model_name_or_path == folder.name


def test_quantized_weights_without_an_adapter_are_refused() -> None:
    with pytest.raises(ConfigError, match="use_peft"):
        load_trainable(
            find_checkpoint(str(checkpoint("qwen3_vl"))),
            world.model_settings("qwen3_vl", use_peft=False, load_in_4bit=True),
        )
