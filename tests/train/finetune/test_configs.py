"""The settings that come with the project: that they can be read, and say what the paper and its release
say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForImageTextToText
from trl import ModelConfig

from tests.support import sft_world as world
from tests.support.training_runs import ROOT, read_config
from videopro.backbones.qwen import QwenInputs
from videopro.pocket import model_dir
from videopro.train.finetune import VideoSFTConfig
from videopro.train.pocket.architecture import build_processor
from videopro.train.runtime import trained_parts
from videopro.train.runtime.trainable import choose_trained


def read(name: str, tmp_path: Path) -> tuple[VideoSFTConfig, ModelConfig]:
    return read_config(VideoSFTConfig, "sft", name, tmp_path)


@pytest.mark.parametrize(
    ("name", "model"),
    [("qwen3vl_8b", "Qwen/Qwen3-VL-8B-Instruct"), ("qwen2_5vl_7b", "Qwen/Qwen2.5-VL-7B-Instruct")],
)
def test_the_large_models_train_as_in_the_paper_and_its_release(
    name: str, model: str, tmp_path: Path
) -> None:
    training, model_settings = read(name, tmp_path)
    assert model_settings.model_name_or_path == model
    assert (model_settings.use_peft, model_settings.lora_r, model_settings.lora_alpha) == (True, 64, 16)
    assert (training.vision, training.projector) == ("frozen", "frozen")
    assert (training.learning_rate, training.num_train_epochs, training.warmup_steps) == (1e-4, 1, 0.05)
    assert training.per_device_train_batch_size == 2
    assert (training.frames, training.pixels) == (64, 50_176)
    assert training.max_length is None


def test_the_pocket_adapter_stays_below_two_megabytes(tmp_path: Path) -> None:
    training, model_settings = read("pocket", tmp_path)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(model_dir()))
    lora = choose_trained(model, model_settings, trained_parts(training.vision, training.projector))
    assert lora is not None
    with torch.device("meta"):
        adapted = get_peft_model(model, lora)
    assert lora.modules_to_save is None  # vLLM serves no adapter that has whole modules
    weights = sum(weight.numel() for name, weight in adapted.named_parameters() if "lora_" in name)
    assert weights == 860_160
    assert 1_000_000 < weights * torch.bfloat16.itemsize < 1_950_000
    assert training.adapter_dtype == "bfloat16"


def test_replies_are_words_to_the_pocket_tokenizer() -> None:
    inputs = QwenInputs(build_processor(), frames=16, pixels=96 * 160, device=torch.device("cpu"))
    for reply in (world.NATIVE, world.STEPS):
        ids = inputs.reply(reply).ids
        assert inputs.tokenizer.decode(ids[:-1]) == reply
        assert inputs.tokenizer.convert_ids_to_tokens(ids[-1]) == "<|im_end|>"
        # Tags, names of modules and keywords are one token each.
        pieces = inputs.tokenizer.convert_ids_to_tokens(ids)
        assert "<planning>" in pieces
        assert "Ġdef" in pieces or "def" in pieces
        assert len(ids) < len(reply) / 2.5


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs" / "accelerate").glob("*.yaml")), ids=lambda f: f.stem
)
def test_accelerate_reads_its_settings(file: Path) -> None:
    settings = load_config_from_file(str(file))
    ways = {"zero2": "DEEPSPEED", "zero3": "DEEPSPEED", "fsdp": "FSDP", "multi_gpu": "MULTI_GPU"}
    assert getattr(settings.distributed_type, "value", settings.distributed_type) == ways.get(file.stem, "NO")
    if file.stem.startswith("zero"):
        assert settings.deepspeed_config["zero_stage"] == int(file.stem[-1])


@pytest.mark.parametrize("name", ["train.sh", "sft.sh", "grpo.sh", "sft_multinode.sh"])
def test_launch_scripts_are_bash(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / "launch" / name)], check=True)
