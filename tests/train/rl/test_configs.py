"""The GRPO settings that come with the project: that they can be read, and say what the paper and its release
say."""

from __future__ import annotations

from pathlib import Path

import pytest
from trl import ModelConfig

from tests.support.training_runs import read_config
from videopro.train.rl import KINDS, VideoGRPOConfig


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
