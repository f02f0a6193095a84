"""Fine-tuning with weights, gradients or optimizer states spread over two ranks, started as on GPUs with the
settings of configs/accelerate: its steps are those of transformers' own forward, or of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.support import sft_world as world
from tests.support.training_reference import EVERYTHING, PLAIN, assert_same, expected_step
from tests.support.training_runs import LORA, adapter, flags, spread_over_two
from videopro.train import sft

pytestmark = pytest.mark.two_processes

KINDS = ["fsdp", "zero2", "zero3"]


def spread(kind: str, output: Path, **changes: Any) -> None:
    """Fine-tune in two ranks, with the settings of this name."""
    settings = flags(output, **{"use_cpu": "false", **changes})
    spread_over_two(kind, ["train/sft.py", *settings], output.parent / "log")


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_all_weights_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    """A video on one rank, text on the other."""
    data = world.write_chosen(tmp_path / "rows.jsonl", [0, 3])
    changes = {**PLAIN, **EVERYTHING, "train_data": data, "per_device_train_batch_size": 1}
    spread(kind, tmp_path / "run", **changes)
    _, expected = expected_step("qwen3_vl", [0, 3])
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_and_its_head_become_what_they_become_in_one_process(kind: str, tmp_path: Path) -> None:
    changes = {
        **LORA,
        "lora_modules_to_save": "lm_head",
        "train_data": world.write_chosen(tmp_path / "rows.jsonl", [0, 1, 2, 3]),
        "max_steps": 2,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
    }
    batches = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    spread(kind, tmp_path / "two", **changes, **batches)
    batches = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    assert sft.main(flags(tmp_path / "one", **changes, **batches)) == 0
    expected = adapter(tmp_path / "one")
    assert any("lm_head" in name for name in expected)
    assert any(weight.any() for name, weight in expected.items() if "lora_B" in name)
    assert_same(adapter(tmp_path / "two"), expected)
