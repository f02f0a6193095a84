"""The GPUs of a machine that a training uses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import PartialState
from transformers.training_args import ParallelMode

from videopro.train.finetune import VideoSFTConfig
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import setup
from videopro.train.settings import GRPOSettings, SFTSettings


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
    assert "the first of 8 GPUs" in note
    assert setup._idle_gpus(GRPOSettings(engine_gpus="4,5,6,7")) == []
    state.num_processes = 8
    assert setup._idle_gpus(SFTSettings()) == []
