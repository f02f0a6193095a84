"""The GRPO settings that come with the project: that they can be read, and say what the paper and its release
say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from trl import ModelConfig

from tests.support.training_runs import ROOT, read_config
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import read_settings
from videopro.train.settings import KINDS


def read(name: str, tmp_path: Path) -> tuple[VideoGRPOConfig, ModelConfig]:
    return read_config(VideoGRPOConfig, "grpo", name, tmp_path)


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
    assert (training.num_generations, training.temperature, training.learning_rate) == (8, 1.0, 1e-6)
    assert (training.frames, training.pixels) == (64, 50_176)
    assert tuple(training.kinds) == KINDS
    # A pass takes whole groups.
    assert training.per_device_train_batch_size % training.num_generations == 0
    assert training.shared_prompt
    assert model_settings.attn_implementation == "sdpa"


def test_the_pocket_settings_continue_the_sft_adapter(tmp_path: Path) -> None:
    training, model_settings = read("pocket", tmp_path)
    assert (training.num_generations, training.temperature) == (8, 0.4)
    assert model_settings.model_name_or_path == "pocket"
    assert training.per_device_train_batch_size % training.num_generations == 0
    assert training.log_completions
    assert training.adapter is None


def test_the_releases_settings_are_those_that_it_publishes(tmp_path: Path) -> None:
    # scripts/train.sh of zapqqqwe/VideoPro_code at 8cd3879, by hand; LoRA as in its stage 1.
    file = ROOT / "configs" / "grpo" / "qwen3vl_8b_release.yaml"
    assert yaml.safe_load(file.read_text()) == {
        "model_name_or_path": "Qwen/Qwen3-VL-8B-Instruct",
        "dtype": "bfloat16",
        "use_peft": True,
        "lora_r": 64,
        "lora_alpha": 16,
        "frames": 64,
        "pixels": 50_176,
        "num_generations": 8,
        "temperature": 1.0,
        "max_completion_length": 4096,
        "learning_rate": 1e-6,
        "warmup_steps": 0.05,
        "num_train_epochs": 1,
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": 2,
        "dataloader_num_workers": 4,
        "bf16": True,
        "log_completions": True,
        "num_completions_to_print": 0,
        "logging_steps": 5,
        "eval_steps": 1000,
        "save_steps": 500,
        "save_total_limit": 5,
    }
    words = ["--config", str(file), "--output_dir", str(tmp_path), "--use_cpu", "true", "--bf16", "false"]
    # In one process, as many replies a step as on its four GPUs.
    training, _ = read_settings(VideoGRPOConfig, "grpo", [*words, "--gradient_accumulation_steps", "8"])
    assert training.generation_batch_size == 8


@pytest.mark.parametrize("name", ["qwen3vl_8b", "qwen2_5vl_7b", "pocket"])
def test_the_headers_say_what_the_files_say(name: str, tmp_path: Path) -> None:
    """The column "here" of each header, against the settings below it."""
    text = (ROOT / "configs" / "grpo" / f"{name}.yaml").read_text()
    here = {line[4:30].strip(): line[30:54].strip() for line in text.split("\n") if line.startswith("#   ")}
    training, model = read(name, tmp_path)
    assert here["LoRA rank, alpha"] == f"{model.lora_r}, {model.lora_alpha} (the adapter's)"
    assert here["replies a prompt (G)"] == str(training.num_generations)
    assert float(here["temperature"]) == training.temperature
    assert here["reply, tokens"] == f"{training.max_completion_length:,}"
    rate, schedule = here["learning rate"].split(", ")
    assert (float(rate), schedule) == (training.learning_rate, training.lr_scheduler_type)
    replies = training.per_device_train_batch_size * training.gradient_accumulation_steps
    if name == "pocket":
        assert here["replies a step"] == str(replies)
        assert here["epochs"] == f"{training.max_steps} steps of {replies // 8} prompts"
    else:
        assert here["replies a step"] == f"{replies * 8} on 8 GPUs"
        assert here["frames, pixels"] == f"{training.frames}, {training.pixels:,}"
        assert (float(here["KL (beta)"]), float(here["weight decay"])) == (
            *(training.beta, training.weight_decay),
        )
