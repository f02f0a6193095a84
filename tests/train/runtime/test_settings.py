"""Settings that do not exist, among them those of ms-swift."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.errors import ConfigError
from videopro.train.finetune import VideoSFTConfig
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import read_settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # Flags of scripts/train.sh in zapqqqwe/VideoPro_code at 8cd3879
        (["--lora_rank", "64"], "ms-swift's lora_rank is '--lora_r' here"),
        (["--warmup-ratio=0.05"], "ms-swift's warmup_ratio is '--warmup_steps' here"),
        (["--dataset", "train_sft.jsonl"], "ms-swift's dataset is '--train_data' here"),
        (["--freeze_vit", "True"], "ms-swift's freeze_vit is '--vision' here"),
        (["--learning_rat", "1"], "did you mean '--learning_rate'?"),
        (["--zzz", "1"], "unknown argument '--zzz'; videopro sft --help lists all settings"),
        (["--config", "pocket", "--config=qwen3vl_8b"], "--config is given twice"),
    ],
)
def test_an_unknown_flag_names_ours(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(VideoSFTConfig, "sft", words)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 150


def test_an_unknown_key_names_ours(tmp_path: Path) -> None:
    (file := tmp_path / "c.yaml").write_text("lora_rank: 64\n")
    with pytest.raises(
        ConfigError, match="unknown setting 'lora_rank'; ms-swift's lora_rank is 'lora_r' here"
    ):
        read_settings(VideoSFTConfig, "sft", ["--config", str(file)])


def test_a_setting_that_grpo_lacks_is_not_suggested() -> None:
    # GRPO has no setting for the vision tower, which stays frozen.
    with pytest.raises(ConfigError, match="unknown argument '--freeze_vit'; videopro grpo --help lists"):
        read_settings(VideoGRPOConfig, "grpo", ["--freeze_vit", "True"])
