"""The settings of trainings that come with the project, and the GPUs that a training uses."""

import functools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import PartialState
from accelerate.commands.config.config_args import load_config_from_file
from transformers.training_args import ParallelMode

from tests.support.training_runs import ROOT, read_config
from videopro.train.finetune import VideoSFTConfig
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import setup
from videopro.train.settings import KINDS, GRPOSettings, SFTSettings

SFT = functools.partial(read_config, VideoSFTConfig, "sft")
GRPO = functools.partial(read_config, VideoGRPOConfig, "grpo")


def test_the_large_models_train_as_in_the_paper_and_its_release(tmp_path: Path) -> None:
    (sft, tuned), (grpo, reinforced) = SFT("qwen3vl_8b", tmp_path), GRPO("qwen3vl_8b", tmp_path)
    for training, model_settings in ((sft, tuned), (grpo, reinforced)):
        lora = model_settings.use_peft, model_settings.lora_r, model_settings.lora_alpha
        assert lora == (True, 64, 16)
        assert (training.frames, training.pixels) == (64, 50_176)
    assert (sft.vision, sft.projector, sft.max_length) == ("frozen", "frozen", None)
    assert (sft.learning_rate, sft.num_train_epochs, sft.warmup_steps) == (1e-4, 1, 0.05)
    assert sft.per_device_train_batch_size == 2
    assert (grpo.num_generations, grpo.temperature, grpo.learning_rate) == (8, 1.0, 1e-6)
    assert tuple(grpo.kinds) == KINDS
    # A pass takes whole groups.
    assert grpo.per_device_train_batch_size % grpo.num_generations == 0
    # Measured was this: 64 replies at the same time (perf/scale.py).
    assert grpo.per_device_train_batch_size * grpo.steps_per_sampling == 64
    assert grpo.shared_prompt
    assert reinforced.attn_implementation == "sdpa"


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs" / "accelerate").glob("*.yaml")), ids=lambda f: f.stem
)
def test_accelerate_reads_its_settings(file: Path) -> None:
    settings = load_config_from_file(str(file))
    ways = {"zero2": "DEEPSPEED", "zero3": "DEEPSPEED", "fsdp": "FSDP", "multi_gpu": "MULTI_GPU"}
    assert getattr(settings.distributed_type, "value", settings.distributed_type) == ways.get(file.stem, "NO")
    if file.stem.startswith("zero"):
        assert settings.deepspeed_config["zero_stage"] == int(file.stem[-1])


def test_a_process_alone_trains_on_one_of_eight_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers would give each GPU a part of each batch, and of the patches of its videos."""
    monkeypatch.setattr(PartialState, "_shared_state", {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    training = VideoSFTConfig(output_dir=str(tmp_path), bf16=False, per_device_train_batch_size=8)
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
