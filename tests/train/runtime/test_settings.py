"""Settings that do not exist, among them those of ms-swift."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import PartialState
from transformers.training_args import ParallelMode

from videopro.errors import ConfigError
from videopro.train.finetune import VideoSFTConfig
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import read_settings, setup
from videopro.train.settings import GRPOSettings, SFTSettings


@pytest.mark.parametrize(
    ("words", "said"),
    [
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
    (file := tmp_path / "c.yaml").write_text("learning_rat: 1\n")
    with pytest.raises(ConfigError, match="unknown setting 'learning_rat'; did you mean 'learning_rate'"):
        read_settings(VideoSFTConfig, "sft", ["--config", str(file)])


@pytest.mark.parametrize("kind", [VideoSFTConfig, VideoGRPOConfig])
def test_a_process_alone_trains_on_one_of_several_gpus(
    kind: type[VideoSFTConfig | VideoGRPOConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers would give each GPU a part of each batch, and of the patches of its videos."""
    monkeypatch.setattr(PartialState, "_shared_state", {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    training = kind(output_dir=str(tmp_path), bf16=False, per_device_train_batch_size=8)
    assert training.parallel_mode is ParallelMode.NOT_PARALLEL
    assert (training.n_gpu, training.train_batch_size) == (1, 8)


def test_gpus_that_are_not_used_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of eight, by a process that no launcher has started and no engine stands beside."""
    state = SimpleNamespace(num_processes=1, device=torch.device("cuda:0"))
    monkeypatch.setattr(setup, "PartialState", lambda: state)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    (note,) = setup._idle_gpus(SFTSettings())
    assert note.startswith("this process trains on the first of 8 GPUs; to use all of them")
    assert "bash launch/sft.sh" in note
    assert setup._idle_gpus(GRPOSettings(engine_gpus="4,5,6,7")) == []
    state.num_processes = 8
    assert setup._idle_gpus(SFTSettings()) == []
