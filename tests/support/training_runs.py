"""Commands of whole training runs on tiny checkpoints and a CPU, and what they leave."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainingArguments
from trl import ModelConfig

from tests.support import ROOT
from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint
from videopro.train import merge
from videopro.train.runtime import read_settings

NO_MODELS = json.dumps(dict.fromkeys(("encoder", "text_encoder", "ocr", "detector"), "none"))
LORA: dict[str, Any] = {"use_peft": "true", "lora_r": 4, "lora_dropout": 0.0}
LORA |= {"adapter_dtype": "float32", "learning_rate": 1e-2}

S = TypeVar("S", bound=TrainingArguments)


def flags(output: Path, **given: Any) -> list[str]:
    """Flags for a run on a CPU, with these over them."""
    model = {"model_name_or_path": checkpoint("qwen3_vl"), "dtype": "float32"}
    data = {"train_data": world.folder() / "sft.jsonl", **world.pictures()}
    settings = {"output_dir": output, **model, **data, **world.ON_A_CPU, **given}
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def saves(every: int) -> dict[str, Any]:
    """Settings: a checkpoint after so many steps."""
    return {"save_strategy": "steps", "save_steps": every}


def evaluates(every: int) -> dict[str, Any]:
    """Settings: an evaluation after so many steps."""
    return {"eval_strategy": "steps", "eval_steps": every}


def read_config(kind: type[S], stage: str, name: str, output: Path) -> tuple[S, ModelConfig]:
    """The settings of configs/STAGE/NAME.yaml."""
    words = ["--config", str(ROOT / "configs" / stage / f"{name}.yaml"), "--output_dir", str(output)]
    # A machine without a GPU refuses bf16 before anything else.
    return read_settings(kind, stage, [*words, "--use_cpu", "true", "--bf16", "false"])


TORCHRUN = ["torch.distributed.run", "--nproc_per_node=2", "--rdzv-backend=c10d"]
TORCHRUN += ["--rdzv-endpoint=localhost:0"]


def two_processes(words: Sequence[str], log: Path, launcher: Sequence[str] = TORCHRUN) -> None:
    """A script or module of the repository as two ranks on this CPU; a file takes what they say, since a pipe
    would be waited for as long as any child of theirs holds it. `launcher`: a module and its settings."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *launcher, *words],
            cwd=ROOT,
            env=environment,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=200)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert status == 0, log.read_text()[-4000:]


def spread_over_two(kind: str, words: Sequence[str], log: Path) -> None:
    """A script of the repository as two ranks on this CPU that share what configs/accelerate/KIND.yaml says,
    as they would on GPUs; nothing under plain "ddp"."""
    if kind == "ddp":
        two_processes(words, log)
        return
    if kind != "fsdp" and shutil.which("g++") is None:
        pytest.skip("DeepSpeed compiles what its ranks on a CPU talk with, and there is no g++")
    config = str(ROOT / "configs" / "accelerate" / f"{kind}.yaml")
    launcher = ["accelerate.commands.launch", "--config_file", config, "--num_processes", "2"]
    launcher += ["--mixed_precision", "no", "--main_process_port", "0"]
    two_processes(["--module", "perf.battery.as_accelerator", *words], log, launcher)


def whole_and_resumed(
    command: Callable[[list[str]], int], words: Callable[[Path], list[str]], folder: Path, steps: int
) -> None:
    """Run a training to its end, and once more from its checkpoint at step 3, as a run that was killed later
    leaves it; the adapters that both end with must be equal to the last bit."""
    whole, resumed = folder / "whole", folder / "resumed"
    assert command(words(whole)) == 0
    resumed.mkdir()
    shutil.copytree(whole / "checkpoint-3", resumed / "checkpoint-3")
    shutil.copy(whole / "training_record.json", resumed)
    assert command(words(resumed)) == 0
    assert json.loads((resumed / "trainer_state.json").read_text())["global_step"] == steps
    assert_equal(adapter(resumed), adapter(whole))
    assert any(tensor.any() for name, tensor in adapter(whole).items() if "lora_B" in name)


def merge_into(output: Path, base: object, adapter: object) -> int:
    """The status of `videopro merge`."""
    return merge.main(["--base", str(base), "--adapter", str(adapter), "--output", str(output)])


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of an adapter."""
    return load_file(folder / "adapter_model.safetensors")


def trained_weights(trainer: Any) -> dict[str, torch.Tensor]:
    """What is trained, as it is now."""
    named = trainer.model.named_parameters()
    return {name: weight.detach().clone() for name, weight in named if weight.requires_grad}


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """To the last bit."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
