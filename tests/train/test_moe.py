"""Mixtures of experts, whose experts are no linear layers: LoRA on them by `lora_target_parameters`."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import save_torch_state_dict
from peft import get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from tests.support import sft_world as world
from tests.support.qwen_models import QUESTION, checkpoint, lora, pictures, reference
from tests.support.training_runs import LORA, adapter, flags, merge_into
from videopro.backbones import load_backbone
from videopro.errors import ConfigError
from videopro.question import Answer
from videopro.train import sft
from videopro.train.runtime.trainable import choose_trained, coverage_line, weights_by_kind

EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def arguments(family: str, output: Path, *more: str, **changes: Any) -> list[str]:
    given = {"model_name_or_path": checkpoint(family), "max_steps": 1, **LORA, **changes}
    return [*flags(output, **given), *more]


def answers(model: Path, **settings: Any) -> list[Answer]:
    """Of the model with its adapter on, if it has one, and off."""
    backbone = load_backbone(str(model), frames=4, pixels=4096, **settings)
    shown = pictures(4)
    on = backbone.answer(shown, QUESTION)
    with backbone.adapter(False):
        return [on, backbone.answer(shown, QUESTION)]


def differ(left: Answer, right: Answer) -> float:
    return max(abs(left.letters[letter] - right.letters[letter]) for letter in left.letters)


@pytest.mark.parametrize("family", ["qwen3_vl_moe", "qwen3_5_moe"])
def test_experts_are_adapted_saved_loaded_and_merged(family: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert sft.main(arguments(family, run, "--lora_target_parameters", *EXPERTS)) == 0
    trained = [name for name, weight in adapter(run).items() if ".experts." in name and weight.any()]
    assert {name.rpartition(".lora_")[2] for name in trained} == {"A.weight", "B.weight"}
    assert merge_into(tmp_path / "merged", checkpoint(family), run) == 0
    (plain, _), (on, off) = answers(checkpoint(family)), answers(checkpoint(family), adapter=str(run))
    merged, _ = answers(tmp_path / "merged")
    assert differ(off, plain) == 0
    assert differ(on, off) > 1e-4
    assert differ(merged, on) < 1e-5


@pytest.mark.parametrize("experts", [None, EXPERTS])
def test_covered_and_uncovered_are_all_weights(experts: Sequence[str] | None) -> None:
    model, _ = reference("qwen3_vl_moe")
    total = sum(weight.numel() for weight in model.parameters())
    settings = world.model_settings("qwen3_vl_moe", use_peft=True, lora_dropout=0.0)
    settings.lora_target_parameters = list(experts) if experts else None
    config = choose_trained(model, settings, ["language"])
    attention = 2 * (2 * 32 * 32 + 2 * 16 * 32)
    tuned = get_peft_model(model, config)
    trained, left = weights_by_kind(tuned)
    assert trained == attention + (2 * 4 * (48 + 24) * 32 if experts else 0)
    assert trained + left.total() == total
    assert "lm_head" in left
    # By hand: two layers of 4 experts, of 32 x 48 and 24 x 32.
    sizes = {} if experts else {EXPERTS[0]: 2 * 4 * 48 * 32, EXPERTS[1]: 2 * 4 * 24 * 32}
    assert {kind: count for kind, count in left.items() if ".experts." in kind} == sizes
    said = coverage_line(tuned)
    assert f"of {total:,} weights (" in said
    assert (f"--lora_target_parameters {EXPERTS[1]} {EXPERTS[0]}" in said) == (experts is None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lora_target_parameters": ["mlp.experts.up"]}, "mlp.experts.up"),
        ({"lora_target_parameters": EXPERTS, "lora_dropout": 0.1}, "lora_dropout"),
        ({"lora_target_parameters": EXPERTS, "use_dora": True}, "use_dora"),
    ],
)
def test_what_cannot_be_adapted_is_named(changes: dict[str, Any], said: str) -> None:
    model, _ = reference("qwen3_vl_moe")
    settings = world.model_settings("qwen3_vl_moe", use_peft=True, **{"lora_dropout": 0.0, **changes})
    with pytest.raises(ConfigError, match=said):
        choose_trained(model, settings, ["language"])


def longer(base: Path, shard_size: str) -> dict[str, torch.Tensor]:
    """A Qwen3.5 with the head for further tokens, which its class lacks, and a part that nobody knows."""
    shutil.copytree(checkpoint("qwen3_5"), base)
    plain = load_file(base / "model.safetensors")
    torch.manual_seed(5)
    more = {
        "mtp.fc.weight": torch.randn(32, 64).bfloat16(),
        "mtp.layers.0.mlp.gate_proj.weight": torch.randn(48, 32).half(),
        "value_head.weight": torch.randn(1, 32),
    }
    (base / "model.safetensors").unlink()
    save_torch_state_dict({**plain, **more}, base, max_shard_size=shard_size)
    return more


def assert_kept(folder: Path, more: dict[str, torch.Tensor]) -> None:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    found: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        part = load_file(file)
        assert {name: index["weight_map"][name] for name in part} == dict.fromkeys(part, file.name)
        found |= part
    assert found.keys() == index["weight_map"].keys()
    for name, tensor in more.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    _, info = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]


@pytest.mark.parametrize("shard_size", ["1GB", "200KB"])
def test_a_merged_model_keeps_what_the_base_has_beyond_the_model(shard_size: str, tmp_path: Path) -> None:
    more = longer(tmp_path / "base", shard_size)
    lora("qwen3_5", tmp_path / "lora")
    assert merge_into(tmp_path / "merged", tmp_path / "base", tmp_path / "lora") == 0
    assert_kept(tmp_path / "merged", more)


def test_a_whole_model_keeps_what_the_base_has_beyond_the_model(tmp_path: Path) -> None:
    more, run = longer(tmp_path / "base", "200KB"), tmp_path / "run"
    given = {"model_name_or_path": tmp_path / "base", "use_peft": "false", "lr_scheduler_type": "constant"}
    given |= {"save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-4}
    # A run goes on from such a checkpoint.
    for steps in (1, 2):
        assert sft.main(arguments("qwen3_5", run, **{**given, "max_steps": steps})) == 0
        for folder in (run, run / f"checkpoint-{steps}"):
            assert_kept(folder, more)
