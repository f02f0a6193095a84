"""Fine-tuning steps against transformers' own gradients; which weights take part in them, at which rates."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from transformers import PreTrainedModel

from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint, reference
from tests.support.training_reference import EVERYTHING, PLAIN, assert_same, expected_step
from tests.support.training_runs import trained_weights
from videopro.backbones.qwen import find_checkpoint
from videopro.errors import ConfigError
from videopro.train.finetune import layout
from videopro.train.finetune import trainer as trainer_module
from videopro.train.packing import RowShape
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


ALL = [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("family", "chosen", "changes"),
    [
        *((family, ALL, {"gradient_accumulation_steps": 2}) for family in FAMILIES),
        ("qwen3_vl", [0, 3], {"gradient_checkpointing": True}),
        # Text alone.
        ("qwen3_vl", [3], {"per_device_train_batch_size": 1}),
    ],
    ids=str,
)
def test_a_step_is_the_mean_over_tokens_however_the_batch_is_split(
    family: str, chosen: list[int], changes: dict[str, Any], tmp_path: Path
) -> None:
    loss, weights = stepped(family, tmp_path, chosen, **changes)
    expected_loss, expected = expected_step(family, chosen)
    assert loss == pytest.approx(expected_loss, abs=1e-4)
    assert_same(weights, expected)


@pytest.mark.parametrize(
    ("family", "shape"), [("qwen2_5_vl", RowShape()), ("qwen3_vl", RowShape(buckets=True))]
)
def test_rows_joined_into_one_step_as_separate_rows(
    family: str, shape: RowShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three videos of other sizes and a text: the loss and every weight's gradient, the tower's too."""
    monkeypatch.setattr(RowShape, "of", lambda *_, **__: shape)
    shapes: list[tuple[int, ...]] = []
    plain = layout.joined

    def watched(batch: Any, *more: Any) -> Any:
        made = plain(batch, *more)
        shapes.append(tuple(made["input_ids"].shape))
        assert int(batch["attention_mask"].sum()) == shapes[-1][1] or shape.buckets
        return made

    monkeypatch.setattr(trainer_module, "joined", watched)
    loss, weights = stepped(family, tmp_path, ALL, per_device_train_batch_size=4, padding_free=True)
    expected_loss, expected = expected_step(family, ALL)
    assert loss == pytest.approx(expected_loss, abs=1e-4)
    assert_same(weights, expected)
    assert [rows for rows, _ in shapes] == [1]
    assert not shape.buckets or shapes[0][1] % 256 == 0


def test_a_batch_is_padded_to_a_bucket_unless_its_rows_are_equally_long() -> None:
    shape = RowShape(buckets=True)
    batch = world.batch("qwen3_vl", [0, 3])
    width = batch["input_ids"].shape[1]
    wide = layout.widened(batch, shape)
    assert width % 128 != 0
    for name in ("input_ids", "attention_mask", "mm_token_type_ids", "labels"):
        assert wide[name].shape == (2, -(-width // 128) * 128)
        assert torch.equal(wide[name][:, :width], batch[name])
    assert not wide["attention_mask"][:, width:].any()
    assert (wide["labels"][:, width:] == -100).all()
    assert wide["pixel_values_videos"] is batch["pixel_values_videos"]
    alone = world.batch("qwen3_vl", [0])
    assert layout.widened(alone, shape)["input_ids"].shape == alone["input_ids"].shape
    assert layout.widened(batch, RowShape())["input_ids"].shape == batch["input_ids"].shape


@pytest.mark.parametrize(("family", "joins"), [("qwen2_5_vl", False), ("qwen3_vl", True)])
def test_kept_features_are_made_once_and_change_nothing(family: str, joins: bool, tmp_path: Path) -> None:
    """Over two epochs of three rows with videos and one without."""
    after = []
    for kept in (1.0, 0.0):
        given = {"num_train_epochs": 2, "padding_free": joins, "kept_features_gb": kept, "optim": "sgd"}
        config = world.settings(tmp_path, **given)
        made = world.trainer(family, config, world.rows())
        calls: list[int] = []
        made._base.model.visual.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        made.train()
        after.append(trained_weights(made))
        if kept:
            assert len(calls) == made._features.encoded == 3
        else:
            assert made._features is None
            assert len(calls) >= 4
    torch.testing.assert_close(after[0], after[1], atol=1e-6, rtol=1e-5)
    assert any(weight.any() for name, weight in after[0].items() if "lora_B" in name)


_LAYER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def adapted(model: PreTrainedModel, pattern: str) -> set[str]:
    return {name for name, _ in model.named_modules() if re.fullmatch(pattern, name)}


def test_lora_goes_to_every_linear_layer_of_the_language_model_and_to_no_other() -> None:
    model, _ = reference("qwen3_vl")
    language = {
        f"model.language_model.layers.{layer}.{'mlp' if name[0] in 'gud' else 'self_attn'}.{name}"
        for layer in range(2)
        for name in _LAYER
    }
    assert adapted(model, linear_pattern(model, ["language"])) == language
    block = ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
    tower = {f"model.visual.blocks.{i}.{name}" for i in range(2) for name in block}
    merger = {
        f"model.visual.{module}.linear_fc{i}"
        for module in ("merger", "deepstack_merger_list.0")
        for i in (1, 2)
    }
    assert adapted(model, linear_pattern(model, ["vision"])) == tower
    assert adapted(model, linear_pattern(model, ["projector", "language"])) == merger | language


def test_only_the_trained_parts_change(tmp_path: Path) -> None:
    rows = world.rows()
    own = {"projector": "trained", "per_device_train_batch_size": 4}
    config = world.settings(tmp_path, **PLAIN, **own)
    trainer = world.trainer("qwen3_vl", config, rows, use_peft=False)
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    _, whole = expected_step("qwen3_vl", ALL)
    for name, weight in trainer.model.named_parameters():
        if part_of(name) == "vision":
            assert torch.equal(weight, before[name])
        else:
            torch.testing.assert_close(weight.detach(), whole[name], atol=2e-5, rtol=1e-4, msg=name)


def test_weight_decay_spares_norms_and_biases(tmp_path: Path) -> None:
    config = world.settings(tmp_path, weight_decay=0.1, max_steps=1)
    trainer = world.trainer("qwen3_vl", config, world.rows(), use_peft=False)
    groups = trainer.create_optimizer().param_groups
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    decay = {names[id(weight)]: group["weight_decay"] for group in groups for weight in group["params"]}
    assert decay["model.language_model.layers.0.mlp.up_proj.weight"] == 0.1
    assert {value for name, value in decay.items() if "norm" in name} == {0}


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
    settings = world.model_settings("qwen3_vl", use_peft=False, load_in_4bit=True)
    with pytest.raises(ConfigError, match="use_peft"):
        load_trainable(find_checkpoint(str(checkpoint("qwen3_vl"))), settings)
