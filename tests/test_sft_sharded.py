"""Fine-tuning with weights, gradients or optimizer states spread over two ranks, started as on GPUs with the
settings of configs/accelerate: its steps are those of transformers' own forward, or of one process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests import sft_world as world
from tests.sft_reference import EVERYTHING, PLAIN, assert_same, expected_step
from tests.training_runs import LORA, ROOT, adapter, flags, two_processes
from train import sft

KINDS = ["fsdp", "zero2", "zero3"]


def rows(folder: Path, chosen: list[int]) -> Path:
    """These rows of `sft_world`."""
    lines = (world.folder() / "sft.jsonl").read_text().splitlines()
    found = [json.loads(lines[number]) for number in chosen]
    for row in found:
        row["videos"] = [str(world.folder() / video) for video in row.get("videos", ())]
    return world.write(folder / "rows.jsonl", found)


def spread(kind: str, output: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Fine-tune in two ranks, with the settings of this name."""
    if kind != "fsdp" and shutil.which("g++") is None:
        pytest.skip("DeepSpeed compiles what its ranks on a CPU talk with, and there is no g++")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    launcher = [
        *(
            "accelerate.commands.launch",
            "--config_file",
            str(ROOT / "configs" / "accelerate" / f"{kind}.yaml"),
        ),
        *("--num_processes", "2", "--mixed_precision", "no", "--main_process_port", "0"),
        *("--module", "tests.as_accelerator"),
    ]
    settings = flags(output, **{"use_cpu": "false", "ddp_timeout": 120, **changes})
    two_processes(["train/sft.py", *settings], output.parent / "log", launcher)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_all_weights_is_that_of_transformers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A video on one rank, text on the other."""
    data = rows(tmp_path, [0, 3])
    changes = {**PLAIN, **EVERYTHING, "train_data": data, "per_device_train_batch_size": 1}
    spread(kind, tmp_path / "run", monkeypatch, **changes)
    _, expected = expected_step("qwen3_vl", [0, 3])
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_and_its_head_become_what_they_become_in_one_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        **LORA,
        "lora_modules_to_save": "lm_head",
        "train_data": rows(tmp_path, [0, 1, 2, 3]),
        "max_steps": 2,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
    }
    batches = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    spread(kind, tmp_path / "two", monkeypatch, **changes, **batches)
    batches = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    assert sft.main(flags(tmp_path / "one", **changes, **batches)) == 0
    expected = adapter(tmp_path / "one")
    assert any("lm_head" in name for name in expected)
    assert any(one.any() for name, one in expected.items() if "lora_B" in name)
    assert_same(adapter(tmp_path / "two"), expected)
