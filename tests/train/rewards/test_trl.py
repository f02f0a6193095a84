"""TRL's own GRPOTrainer with our reward functions, on a tiny text model whose replies are given."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from tests.support import qwen_models
from tests.support.reason_world import BROKEN, LOCAL, NATIVE
from tests.support.reward_world import make, row

# One step: a group of four about the first row, a group of four about the second.
GIVEN = [LOCAL, NATIVE, BROKEN, "prose"]
REWARDS = [(1, 1, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)]
PLAIN: Any = {
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
}


def test_trl_weighs_logs_and_learns_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.manual_seed(0)
    words = qwen_models.tokenizer()
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        )
    )

    def rollouts(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        replies = [GIVEN[n % 4] for n in range(len(prompts))]
        return {
            "prompt_ids": [words(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": [[*words(reply)["input_ids"], words.eos_token_id] for reply in replies],
            "logprobs": None,
        }

    unreadable = row(id="q2/plan", prompt="Which place?", video=str(tmp_path / "missing.mp4"))
    data = Dataset.from_list([row(prompt="Which colour?"), unreadable])
    with make(log=tmp_path / "rewards.jsonl") as rewards:
        args = GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=400,
            max_steps=1,
            learning_rate=1e-2,
            reward_weights=rewards.weights,
            loss_type="grpo",
            scale_rewards="none",
            logging_steps=1,
            **PLAIN,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=rewards.functions,  # type: ignore[arg-type]
            args=args,
            train_dataset=data,
            processing_class=words,
            rollout_func=rollouts,
        )
        trainer.train()
        assert rewards.executions == 8  # Tried in vain for the second row.
    logged = trainer.state.log_history[0]
    for place, name in enumerate(("accuracy", "format", "mode_consistency")):
        values = [parts[place] for parts in REWARDS]
        mean = sum(values) / 4
        assert logged[f"rewards/{name}/mean"] == pytest.approx(mean)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
        assert logged[f"rewards/{name}/std"] == pytest.approx(spread)
    # Eq. 3: 1.0, 0.2, 0.5 and 0.0.
    assert logged["reward"] == pytest.approx((1.0 + 0.2 + 0.5 + 0.0) / 4)
    of = zip(trainer._logs["extra"]["id"], trainer._logs["completion"], strict=True)
    by_row = dict(zip(of, trainer._logs["advantages"], strict=True))
    assert by_row["q1/plan", LOCAL] == pytest.approx(1.0 - 0.425)
    assert by_row["q1/plan", "prose"] == pytest.approx(-0.425)
    # Nothing is learned from rows that were left out.
    assert [by_row["q2/plan", reply] for reply in GIVEN] == [0, 0, 0, 0]
    assert logged["programs/left_out"] == 0.5
    assert logged["programs/failed/NameError"] == 0.25
    assert logged["programs/native_share"] == 0.25
    lines = [json.loads(line) for line in (tmp_path / "rewards.jsonl").read_text().splitlines()]
    assert len(lines) == 8
    assert {line["step"] for line in lines} == {0}
