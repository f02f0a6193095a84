"""NaN and infinity stop training by their step, are neither saved nor loaded, and are no answer."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from tests.support.grpo_world import SomeRewards, arguments
from tests.support.qwen_models import QUESTION, backbone, checkpoint, lora, pictures
from tests.support.training_runs import LORA, flags, merge_into, saves, two_processes
from videopro.backbones import load_backbone, read_spec
from videopro.backbones.base import ChoiceRequest, GenerateRequest, Sampling
from videopro.errors import BackboneError, RunError
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import load_encoder
from videopro.pocket.encoders import ENCODER
from videopro.storage.finite_weights import non_finite
from videopro.train import grpo as grpo_command
from videopro.train import sft
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import read_settings
from videopro.train.runtime.checkpoints import COMPLETE, checkpoints

NAN, INF = float("nan"), float("inf")
# The weights grow beyond their dtype in the first step, and the second has a loss of NaN.
EXPLODING = {"optim": "sgd", "learning_rate": 1e38, "max_grad_norm": 0}
STEPS = {"lr_scheduler_type": "constant", "per_device_train_batch_size": 2, "max_steps": 4, **saves(every=1)}


def sft_flags(output: Path, **changes: Any) -> list[str]:
    return flags(output, **{**LORA, **EXPLODING, **STEPS, **changes})


def damaged(file: Path, name: str, value: float) -> str:
    """Make one value of a tensor another; the tensor's name."""
    weights = load_file(file)
    weights[name].view(-1)[-1] = value
    save_file(weights, file, metadata={"format": "pt"})
    return name


def saved_weights(output: Path) -> list[Path]:
    """The saved files with NaN or infinite weights."""
    return [
        file
        for file in output.rglob("*.safetensors")
        if any(not torch.isfinite(weight).all() for weight in load_file(file).values())
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_one_value_among_many_is_found(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    for length in (1, 15, 64, 4099):
        fine = torch.randn(length, generator=generator).to(dtype)
        assert non_finite([("fine", fine), ("whole", torch.ones(2, dtype=torch.int8))]) is None
        for value in (NAN, INF, -INF):
            bad = fine.clone()
            bad[int(torch.randint(length, (1,), generator=generator))] = value
            assert non_finite([("fine", fine), ("bad", bad), ("also", bad)]) == "bad"
    assert non_finite([("none", torch.empty(0)), ("far", torch.empty(3, device="meta"))]) is None


def test_a_nan_loss_stops_fine_tuning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sft.main(sft_flags(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "error: step 2: the loss is" in said
    assert not (tmp_path / "run" / "checkpoint-2").exists()
    assert not (tmp_path / "run" / "adapter_model.safetensors").exists()
    assert not saved_weights(tmp_path / "run")


@pytest.mark.two_processes
def test_every_process_stops(tmp_path: Path) -> None:
    words = ["train/sft.py", *sft_flags(tmp_path / "run", ddp_backend="gloo", per_device_train_batch_size=1)]
    with pytest.raises(AssertionError) as failed:
        two_processes(words, tmp_path / "log")
    said = str(failed.value)
    assert said.count("error: step 2: the loss is") == 2
    # Both put their part into the one checkpoint before.
    (saved,) = checkpoints(tmp_path / "run")
    assert saved.name == "checkpoint-1"
    assert {"rng_state_0.pth", "rng_state_1.pth", COMPLETE} <= {file.name for file in saved.iterdir()}


class InfiniteWeight(TrainerCallback):
    """Makes a weight infinite after the first step."""

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        trained[0].data.view(-1)[0] = INF


@pytest.mark.parametrize("strategy", ["steps", "no"], ids=["in a checkpoint", "at the end"])
def test_non_finite_weights_are_not_saved(tmp_path: Path, strategy: str) -> None:
    """After the last step, so that no later step would notice."""
    words = sft_flags(tmp_path / "run", learning_rate=1e-3, max_steps=1, save_strategy=strategy)
    with pytest.raises(RunError, match="step 1: some weights are NaN or infinite"):
        sft.train(*read_settings(VideoSFTConfig, "sft", words), callbacks=[InfiniteWeight()])
    assert not list((tmp_path / "run").rglob("*.safetensors"))


def test_grpo_stops_where_the_output_is_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grpo_command, "ProgramRewards", SomeRewards)
    words = arguments(tmp_path / "run", **EXPLODING, **saves(every=1), max_steps=3)
    assert grpo_command.main(words) == 2
    said = capsys.readouterr().err
    assert "error: step 2: the policy's logits are NaN or infinite" in said
    assert not saved_weights(tmp_path / "run")


def test_a_damaged_adapter_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, folder = str(checkpoint("qwen3_vl")), str(lora("qwen3_vl", tmp_path / "lora"))
    file = tmp_path / "lora" / "adapter_model.safetensors"
    name = damaged(file, max(load_file(file)), INF)
    with pytest.raises(BackboneError, match=r"adapter_model\.safetensors") as refused:
        load_backbone(read_spec(base, adapter=folder))
    assert name in str(refused.value)
    capsys.readouterr()
    assert sft.main(sft_flags(tmp_path / "more", adapter=folder, use_peft="false")) == 2
    assert merge_into(tmp_path / "merged", base, folder) == 2
    assert capsys.readouterr().err.count(name) == 2
    assert not (tmp_path / "merged").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("qwen3_vl"), tmp_path / "model")
    file = next(folder.glob("*.safetensors"))
    name = damaged(file, sorted(load_file(file))[2], NAN)
    with pytest.raises(BackboneError) as refused:
        load_backbone(read_spec(str(folder)))
    assert f"{file}: tensor {name} contains NaN" in str(refused.value)


def test_a_damaged_encoder_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(ENCODER.checkpoint, tmp_path / "encoder")
    file = folder / "model.safetensors"
    name = damaged(file, min(load_file(file)), NAN)
    with pytest.raises(ModelError, match=name):
        load_encoder(f"languagebind:{folder}")


def test_nan_output_is_an_error() -> None:
    """Weights that overflow only for what they are shown."""
    tiny = backbone("qwen3_vl")
    head: Any = tiny._runner.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, given, out: out * NAN)
    try:
        for temperature in (0.0, 1.0):
            with pytest.raises(BackboneError, match="NaN"):
                tiny.generate_batch([GenerateRequest(None, "hello")], Sampling(temperature=temperature))
        with pytest.raises(BackboneError, match="NaN"):
            tiny.answer_batch([ChoiceRequest(pictures(2), QUESTION)])
    finally:
        hook.remove()
