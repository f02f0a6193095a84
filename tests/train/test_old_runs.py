"""Training runs, adapters and a merged checkpoint of the version before the packages were laid out anew: runs
resume to the same weights, and models answer as they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.grpo_runs import SomeRewards
from tests.support.old_folders import unpack_training
from tests.support.qwen_models import PIXELS, QUESTION, pictures
from tests.support.training_runs import LORA, NO_MODELS, adapter, assert_equal, flags
from videopro.backbones import Sampling, load_backbone
from videopro.backbones.qwen import draws, runner
from videopro.commands import infer
from videopro.train import grpo, merge, sft

# The rewards of runs from before the confidence of program logic.
EARLIER = {"form": "strict", "reasoned_confidence": "none"}
STAGES: dict[str, tuple[Callable[[list[str]], int], dict[str, Any]]] = {
    "sft": (sft.main, {"lora_dropout": 0.2, "per_device_train_batch_size": 1, "num_train_epochs": 2}),
    "grpo": (
        grpo.main,
        {
            "num_generations": 4,
            "per_device_train_batch_size": 4,
            "max_completion_length": 6,
            "max_steps": 5,
            "gradient_accumulation_steps": 2,
            "modules": NO_MODELS,
            **EARLIER,
        },
    ),
}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grpo, "ProgramRewards", SomeRewards)
    return unpack_training(tmp_path)


def train(stage: str, old: Path, output: Path, **changes: Any) -> int:
    command, settings = STAGES[stage]
    given = {
        "model_name_or_path": old / "base",
        "train_data": old / f"{stage}.jsonl",
        "frame_cache": old / "frames",
        "save_strategy": "steps",
        "save_steps": 3,
        **LORA,
        "lora_r": 2,
        **settings,
        **changes,
    }
    return command(flags(output, **given))


def draw_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw tokens as versions did that wrote replies by passes: by torch.multinomial, with a generator for
    each row. Everything else of a run that they began must then go on as it would have."""
    generators: list[torch.Generator] = []

    def rows(seeds: Sequence[tuple[int, int]], tokens: int) -> torch.Tensor:
        """In place of a row's numbers, which of the generators is its."""
        generators.clear()
        for seed in seeds:
            mixed = np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0]
            generators.append(torch.Generator().manual_seed(int(mixed >> 1)))
        return torch.arange(len(seeds), dtype=torch.float64)[:, None].expand(-1, tokens)

    def draw(logits: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        probabilities = logits.softmax(-1)
        drawn = [
            torch.multinomial(row, 1, generator=generators[int(number)])
            for row, number in zip(probabilities, numbers, strict=True)
        ]
        return torch.cat(drawn)

    monkeypatch.setattr(runner, "uniforms", rows)
    monkeypatch.setattr(draws, "_draw", draw)


def losses(run: Path) -> list[float]:
    history = json.loads((run / "training_record.json").read_text())["history"]
    return [line["loss"] for line in history if "loss" in line]


@pytest.mark.parametrize(("stage", "steps"), [("sft", 8), pytest.param("grpo", 5, marks=pytest.mark.long)])
def test_a_run_resumes_to_the_weights_of_one_that_was_never_stopped(
    stage: str,
    steps: int,
    old: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_as_before(monkeypatch)
    run, checkpoint = old / stage, old / stage / "checkpoint-3"
    before, expected_losses = checkpoint.stat().st_ino, losses(run)
    assert train(stage, old, run) == 0
    assert "damaged" not in capsys.readouterr().err
    assert checkpoint.stat().st_ino == before, "step 3 was taken again"
    assert json.loads((run / "trainer_state.json").read_text())["global_step"] == steps
    if stage == "grpo":
        manifest = json.loads((checkpoint / "checkpoint_files.json").read_text())
        assert manifest["logs"] == {"programs.jsonl": (run / "programs.jsonl").stat().st_size}
    assert train(stage, old, tmp_path / "whole") == 0
    # Rounding on other processors moved weights by up to 4e-4; a lost optimizer state, by 5e-3.
    for expected in (adapter(tmp_path / "whole"), adapter(old / f"{stage}-end")):
        torch.testing.assert_close(adapter(run), expected, atol=2e-3, rtol=0)
    assert losses(run) == pytest.approx(expected_losses, abs=1e-3)


@pytest.mark.parametrize("stage", STAGES)
def test_checkpoints_of_another_run_are_refused(
    stage: str, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = {"form": "equation", "reasoned_confidence": "product"} if stage == "grpo" else {}
    assert train(stage, old, old / stage, learning_rate=0.02, **now) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    # Rewards of runs from before the confidence of program logic are others, too.
    rewards = ", form was 'strict' and is 'equation', reasoned_confidence was 'none' and is 'product'"
    differences = f"learning_rate was 0.01 and is 0.02{rewards if stage == 'grpo' else ''}"
    assert f"has checkpoints of another run: {differences}; give another" in last


def test_grpo_continues_an_adapter(old: Path, tmp_path: Path) -> None:
    """Nothing is learned in a step at rate 0."""
    changes = {"adapter": old / "sft-end", "learning_rate": 0.0, "max_steps": 1}
    assert train("grpo", old, tmp_path / "run", **changes) == 0
    assert_equal(adapter(tmp_path / "run"), adapter(old / "sft-end"))


@pytest.mark.parametrize(
    ("name", "model", "added"),
    [("sft", "base", "sft-end"), ("grpo", "base", "grpo-end"), ("merged", "merged", None)],
)
def test_models_answer_as_they_did(name: str, model: str, added: str | None, old: Path) -> None:
    expected = json.loads((old / "answers.json").read_text())[name]
    assert answers(old / model, old / added if added else None) == expected


def test_an_adapter_is_merged(old: Path, tmp_path: Path) -> None:
    words = ["--base", old / "base", "--adapter", old / "sft-end", "--output", tmp_path / "merged"]
    assert merge.main([str(word) for word in words]) == 0
    found = answers(tmp_path / "merged", None)
    expected = json.loads((old / "answers.json").read_text())["merged"]
    assert {**found, "identity": None} == {**expected, "identity": None}


def answers(model: Path, adapter: Path | None) -> dict[str, Any]:
    """What a model says, as answers.json holds it."""
    with_adapter = {"adapter": str(adapter)} if adapter else {}
    backbone = load_backbone(str(model), frames=4, pixels=PIXELS, **with_adapter)
    shown = pictures(4)
    answer = backbone.answer(shown, QUESTION, prompt="Which letter?")
    reply = backbone.generate(shown, "What is a ring?", Sampling(max_new_tokens=8))
    return {
        # Less what that version did not record.
        "identity": {key: value for key, value in backbone.identity().items() if "video" not in key},
        "letters": pytest.approx(dict(answer.letters), rel=1e-3),
        "reply": list(reply.token_ids),
        "confidence": pytest.approx(reply.confidence, rel=1e-3),
    }


def test_an_adapter_writes_the_programs_that_it_wrote(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = json.loads((old / "infer" / "traces.jsonl").read_text().splitlines()[-1])
    words = "--benchmark jsonl --root training --method program --model training/base "
    words += "--output training/again --backbone adapter=training/sft-end frames=4 pixels=4096 "
    words += "--options temperature=0 max_new_tokens=8 max_parallel=2 "
    words += "encoder=none text_encoder=none ocr=none detector=none"
    assert infer.main(words.split()) == 0
    traces = [json.loads(line) for line in (old / "again" / "traces.jsonl").read_text().splitlines()]
    (now,) = (trace for trace in traces if trace["question_id"] == before["question_id"])
    assert [turn["raw"] for turn in now["rounds"]] == [turn["raw"] for turn in before["rounds"]]
    assert now["cost"]["tokens_in"] == before["cost"]["tokens_in"]
