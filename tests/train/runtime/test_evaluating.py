"""An evaluation changes nothing in the training that goes on, and its loss does not depend on the batch
size."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.support import grpo_world
from tests.support import grpo_world as rl
from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint, reference
from tests.support.training_reference import conversation, own_loss
from tests.support.training_runs import LORA, adapter, assert_equal, flags
from videopro.train import grpo, sft
from videopro.train.finetune import as_dataset
from videopro.train.runtime.trainer import preserved_random_state

ROWS = [0, 1, 3, 2, 1]


def expected_loss() -> float:
    """The mean over all tokens of all rows, from transformers' model on each row alone."""
    model, processor = reference("qwen3_vl")
    total, summed = 0, 0.0
    with torch.no_grad():
        for number in ROWS:
            loss, tokens = own_loss(model, conversation("qwen3_vl", processor, world.rows()[number]))
            summed, total = summed + float(loss) * tokens, total + tokens
    return summed / total


def test_the_loss_is_a_mean_over_all_tokens_whatever_the_batch_size(tmp_path: Path) -> None:
    trainer = world.trainer("qwen3_vl", world.settings(tmp_path), world.rows())
    dataset = as_dataset([world.rows()[number] for number in ROWS])
    expected = expected_loss()
    for size in (1, 2, 5):
        trainer.args.per_device_eval_batch_size = size
        assert trainer.evaluate(dataset)["eval_loss"] == pytest.approx(expected, abs=1e-4)


def test_rows_that_are_repeated_for_a_second_process_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last batch of two processes, two rows each, three are rows of the set: the fourth, of the second
    process, is accelerate's repetition of the first."""
    rows = [world.rows()[number] for number in (0, 1)]
    trainer = world.trainer("qwen3_vl", world.settings(tmp_path, per_device_eval_batch_size=2), rows)
    state = SimpleNamespace(end_of_dataloader=True, remainder=3)
    labels = torch.tensor([[5, 6, 7], [8, 9, 10]])
    for process, expected in ((0, [[5, 6, 7], [8, 9, 10]]), (1, [[5, 6, 7], [-100, -100, -100]])):
        one = SimpleNamespace(process_index=process, gradient_state=state)
        monkeypatch.setattr(trainer, "accelerator", one)
        assert trainer._own_labels(labels).tolist() == expected
    state.end_of_dataloader = False
    assert trainer._own_labels(labels).tolist() == labels.tolist()


def test_an_evaluation_does_not_change_dropout(tmp_path: Path) -> None:
    rows = world.folder() / "sft.jsonl"
    given = {**LORA, "train_data": rows, "max_steps": 2, "lora_dropout": 0.3}
    measured = {"eval_data": rows, "eval_strategy": "steps", "eval_steps": 1}
    assert sft.main(flags(tmp_path / "measured", **given, **measured)) == 0
    assert sft.main(flags(tmp_path / "alone", **given)) == 0
    history = json.loads((tmp_path / "measured" / "training_record.json").read_text())["history"]
    assert len([line for line in history if "eval_loss" in line]) == 2
    assert_equal(adapter(tmp_path / "measured"), adapter(tmp_path / "alone"))


def test_rewards_of_held_out_prompts_do_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    """A reply is drawn by its place among all held-out prompts."""
    found = []
    for size in (4, 8):
        config = rl.settings(tmp_path / str(size), per_device_eval_batch_size=size, temperature=1.5)
        trainer = rl.trainer("qwen3_vl", config, rl.rows()[:2])
        trainer.eval_dataset = trainer.train_dataset
        found.append(trainer.evaluate())
        assert trainer._eval_rows == 0
    assert found[0]["eval_reward"] == pytest.approx(found[1]["eval_reward"])
    assert found[0]["eval_reward"] != 0


def test_the_random_state_is_kept() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    def seed() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    seed()
    expected = drawn()
    seed()
    with preserved_random_state():
        assert drawn() == expected
    assert drawn() == expected


@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.long)])
def test_all_weights_are_reinforced_with_a_reference(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `beta` above 0 and no adapter to turn off, TRL loads a reference model; the KL term is 0 in the
    first step, and not afterwards."""
    monkeypatch.setattr(grpo, "ProgramRewards", grpo_world.SomeRewards)
    whole = {"use_peft": "false", "answerer": checkpoint("qwen3_vl"), "learning_rate": 1e-3, "beta": 0.1}
    words = grpo_world.arguments(tmp_path / "run", **whole, shared_prompt=str(shared).lower())
    assert grpo.main(words) == 0
    history = json.loads((tmp_path / "run" / "training_record.json").read_text())["history"]
    divergence = [line["kl"] for line in history if "kl" in line]
    assert divergence[0] == pytest.approx(0, abs=1e-5)
    assert divergence[1] > 1e-3
