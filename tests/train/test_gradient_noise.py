"""Whether the gradients of steps point the same way: the statistics, and runs at rate 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support import grpo_world, sft_world
from tests.support.training_runs import LORA, NO_MODELS, adapter, flags
from videopro.errors import ConfigError
from videopro.train.gradient_noise import main, measure, noise, noise_report

ONE_ROW = {**LORA, "per_device_train_batch_size": 1, "max_steps": 3}


def test_the_mean_cosine_and_its_error_by_hand() -> None:
    """Cosines 1, 0, 0 and 1/sqrt(2) three times; without the first or second step their mean is 0.4714,
    without the third 0.8047, without the last 0.3333."""
    half = 0.5**0.5
    found = noise([torch.tensor(step) for step in ([1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [half, half])])
    assert found.mean_cosine == pytest.approx(0.52022, abs=1e-5)
    assert found.standard_error == pytest.approx(0.30080, abs=1e-5)
    assert found.steps_to_half_signal == pytest.approx(0.92226, abs=1e-4)


def test_steps_of_known_signal_and_noise() -> None:
    """Noise of four times the signal's power: four steps together are half signal."""
    chance = torch.Generator().manual_seed(0)
    signal = torch.zeros(400)
    signal[0] = 1
    steps = [signal + 0.1 * torch.randn(400, generator=chance) for _ in range(60)]
    found = noise([step / step.norm() for step in steps])
    assert abs(found.mean_cosine - 0.2) < 3 * found.standard_error < 0.06
    assert found.steps_to_half_signal == pytest.approx(4, rel=0.25)


def test_steps_without_a_common_direction() -> None:
    found = noise(list(torch.eye(3)))
    assert (found.mean_cosine, found.standard_error, found.steps_to_half_signal) == (0, 0, None)
    assert "no number is enough" in noise_report(found)


def test_a_run_over_one_row_repeats_one_step_and_learns_nothing(tmp_path: Path) -> None:
    data = sft_world.write_chosen(tmp_path / "rows.jsonl", [0])
    output = tmp_path / "run"
    found = measure("sft", flags(output, **ONE_ROW, train_data=data, num_train_epochs=3))
    assert found.steps == 3
    assert found.mean_cosine == pytest.approx(1, abs=1e-5)
    assert json.loads((output / "gradient_noise.json").read_text())["mean_cosine"] == found.mean_cosine
    written = {name: weight for name, weight in adapter(output).items() if "lora_B" in name}
    assert written
    assert not any(weight.any() for weight in written.values())


def test_a_run_that_earns_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A random model writes no programs: no group has a spread, and no step a gradient."""
    data = sft_world.write(tmp_path / "grpo.jsonl", [grpo_world.record(row) for row in grpo_world.rows()])
    changes = {
        **LORA,
        "train_data": data,
        "modules": NO_MODELS,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "max_completion_length": 4,
        "max_steps": 3,
    }
    assert main(["grpo", *flags(tmp_path / "run", **changes)]) == 2
    assert "only 0 steps had a gradient" in capsys.readouterr().err


def test_the_folder_of_a_training_run_is_refused(tmp_path: Path) -> None:
    data = sft_world.write_chosen(tmp_path / "rows.jsonl", [0])
    (tmp_path / "run" / "checkpoint-2").mkdir(parents=True)
    with pytest.raises(ConfigError, match="has checkpoints of a training run"):
        measure("sft", flags(tmp_path / "run", **ONE_ROW, train_data=data))


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dpo"]) == 2
    assert "grpo or sft" in capsys.readouterr().err


def test_too_few_steps_are_refused_before_they_are_taken(tmp_path: Path) -> None:
    data = sft_world.write_chosen(tmp_path / "rows.jsonl", [0])
    with pytest.raises(ConfigError, match="max_steps is 2; it must be at least 3"):
        measure("sft", flags(tmp_path / "run", **{**ONE_ROW, "max_steps": 2}, train_data=data))
    assert not (tmp_path / "run").exists()
