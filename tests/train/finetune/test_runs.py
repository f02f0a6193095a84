"""Whole fine-tuning runs: resumed, in two processes, with unreadable videos, with invalid settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.support import sft_world as world
from tests.support.making_videos import make
from tests.support.qwen_models import checkpoint
from tests.support.sft_reference import EVERYTHING, PLAIN, assert_same, expected_step
from tests.support.training_runs import (
    LORA,
    NO_MODELS,
    adapter,
    assert_equal,
    flags,
    two_processes,
    whole_and_resumed,
)
from videopro.backbones import load_backbone
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.train import merge, sft
from videopro.train.runtime import RECORD


def arguments(output: Path, **changes: Any) -> list[str]:
    """Flags for a run on a CPU."""
    return flags(output, **{"train_data": world.folder() / "sft.jsonl", **changes})


@pytest.mark.two_processes
@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [0, 3]], ids=["mixed", "text on one rank"])
def test_two_processes_take_the_step_that_one_takes(chosen: list[int], tmp_path: Path) -> None:
    """All parts are trained, so that DDP waits for the vision tower's gradients on the rank without a
    video too."""
    plain = {
        **PLAIN,
        **EVERYTHING,
        "train_data": world.write_chosen(tmp_path / "rows.jsonl", chosen),
        "per_device_train_batch_size": len(chosen) // 2,
        "ddp_backend": "gloo",
    }
    two_processes(["train/sft.py", *arguments(tmp_path / "two", **plain)], tmp_path / "log")
    _, expected = expected_step("qwen3_vl", chosen)
    assert_same(load_file(tmp_path / "two" / "model.safetensors"), expected)


def test_a_planner_records_the_prompts_that_it_was_trained_on(tmp_path: Path) -> None:
    """An adapter, what is merged from it, and what is trained from it bring their prompts; a checkpoint that
    is trained as a whole also records what answers inside its programs."""
    texts = {"plan": "plan {question} {choices}"}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(texts))
    once = {**LORA, "max_steps": 1}
    assert sft.main(arguments(tmp_path / "first", **once, prompts=tmp_path / "p.yaml")) == 0
    assert json.loads((tmp_path / "first" / RECORD).read_text())["run"]["prompts"] == texts
    assert sft.main(arguments(tmp_path / "second", **once, adapter=tmp_path / "first")) == 0
    base = str(checkpoint("qwen3_vl"))
    words = ["--base", base, "--adapter", str(tmp_path / "second"), "--output", str(tmp_path / "merged")]
    assert merge.main(words) == 0
    for model, settings in (
        (base, {"adapter": str(tmp_path / "first")}),
        (base, {"adapter": str(tmp_path / "second")}),
        (str(tmp_path / "merged"), {}),
    ):
        planner = load_backbone(model, **settings).planner
        assert planner is not None
        assert planner.prompts == texts
        assert planner.base == ("" if settings else str(Path(base).resolve()))
    whole = {"use_peft": "false", "max_steps": 1}
    assert sft.main(arguments(tmp_path / "whole", **whole)) == 0
    made = load_backbone(str(tmp_path / "whole"))
    assert made.planner is not None
    assert (made.planner.base, made.planner.prompts) == (str(Path(base).resolve()), {})
    assert made.identity()["planner_prompt"] == "short"
    plain = json.loads((tmp_path / "first" / "videopro.json").read_text())
    assert plain["planner"] == {"prompts": texts}


@pytest.mark.two_processes
def test_evaluation_in_two_processes_takes_each_question_once_and_does_not_change_training(
    tmp_path: Path,
) -> None:
    questions = [
        {
            "id": f"q{number}",
            "video": str(world.folder() / "videos" / f"{'abc'[number]}.mp4"),
            "question": question.text,
            "choices": list(question.choices),
            "answer": "A",
            "oracle_mode": "native",
        }
        for number, question in enumerate(world.QUESTIONS)
    ]
    changes = {**LORA, "max_steps": 3, "ddp_backend": "gloo", "per_device_train_batch_size": 1}
    measured = {
        "eval_questions": world.write(tmp_path / "held-out.jsonl", questions),
        "eval_modules": NO_MODELS,
        "eval_max_new_tokens": 4,
        "eval_strategy": "steps",
        "eval_steps": 1,
    }
    two_processes(
        ["train/sft.py", *arguments(tmp_path / "measured", **changes, **measured)], tmp_path / "log"
    )
    two_processes(["train/sft.py", *arguments(tmp_path / "alone", **changes)], tmp_path / "log")
    kept = (tmp_path / "measured" / "questions" / "step-000002.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in kept) == ["q0", "q1", "q2"]
    assert_equal(adapter(tmp_path / "measured"), adapter(tmp_path / "alone"))


def test_a_resumed_run_ends_with_the_same_weights_to_the_last_bit(tmp_path: Path) -> None:
    changes = {
        **LORA,
        "lora_dropout": 0.2,
        "per_device_train_batch_size": 1,
        "num_train_epochs": 2,
        "save_strategy": "steps",
        "save_steps": 3,
    }
    whole_and_resumed(sft.main, lambda output: arguments(output, **changes), tmp_path, steps=8)


def test_checkpoints_of_another_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"save_strategy": "steps", "save_steps": 1, "max_steps": 1}
    assert sft.main(arguments(tmp_path, **changes)) == 0
    assert sft.main(arguments(tmp_path, **{**changes, "learning_rate": 3e-4})) == 2
    said = capsys.readouterr().err
    assert "learning_rate was 2e-05 and is 0.0003" in said
    assert "give another output_dir" in said


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [("max_steps", 2, 3), pytest.param("num_train_epochs", 1, 2, marks=pytest.mark.long)],
)
def test_at_a_constant_rate_a_run_may_be_extended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, short: int, long: int
) -> None:
    def run(output: str, length: int, schedule: str = "constant") -> int:
        changes = {**LORA, "save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-2, name: length}
        return sft.main(arguments(tmp_path / output, **changes, lr_scheduler_type=schedule))

    assert run("whole", long) == 0
    assert run("longer", short) == 0
    shorter = adapter(tmp_path / "longer")
    assert run("longer", long) == 0
    assert_equal(adapter(tmp_path / "longer"), adapter(tmp_path / "whole"))
    assert any(not torch.equal(weight, shorter[key]) for key, weight in adapter(tmp_path / "whole").items())
    # What has gone further cannot become the shorter run, and a cosine's rates are of its length.
    assert run("longer", short) == 2
    assert f"{name} was {long}" in capsys.readouterr().err
    assert run("cosine", short, "cosine") == 0
    assert run("cosine", long, "cosine") == 2
    assert f"{name} was {short}" in capsys.readouterr().err


def test_an_unreadable_video_is_dropped_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "good.mp4", 30)
    (tmp_path / "broken.mp4").write_bytes((tmp_path / "good.mp4").read_bytes()[:2500])
    rows = [
        world.record("q", "a", "good.mp4", id="kept"),
        world.record("q", "a", "broken.mp4", id="lost-1"),
        world.record("q", "b", "missing.mp4", id="lost-2"),
        world.record("r", "b", "broken.mp4", id="lost-3"),
        world.record("text", "b"),
    ]
    data = world.write(tmp_path / "rows.jsonl", rows)
    output = tmp_path / "run"
    changes = {"train_data": data, "num_train_epochs": 1, "per_device_train_batch_size": 1}
    assert sft.main(arguments(output, **changes)) == 0
    said = capsys.readouterr().err
    assert "3 rows are dropped" in said
    assert "broken.mp4" in said
    assert "rows lost-1, lost-3" in said
    assert "missing.mp4: there is no such file" in said
    record = json.loads((output / "training_record.json").read_text())
    assert record["rows"] == 2
    assert set(record["dropped"]) == {"lost-1", "lost-2", "lost-3"}
    # Nothing took their place: one step for each row that is left.
    assert json.loads((output / "trainer_state.json").read_text())["global_step"] == 2


def test_the_releases_format_is_accepted(tmp_path: Path) -> None:
    video = str((world.folder() / "videos" / "a.mp4").resolve())
    rows = [world.record("Which?", world.NATIVE, video), world.record("Which?", world.STEPS, video)]
    data = world.write(tmp_path / "train_sft.jsonl", rows)
    changes = {"train_data": data, "max_steps": 1, "per_device_train_batch_size": 2, "use_peft": "true"}
    assert sft.main(arguments(tmp_path / "run", **changes)) == 0
    weights = adapter(tmp_path / "run")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}


def test_training_continues_an_adapter(tmp_path: Path) -> None:
    """One step of plain SGD, and one more from the adapter that it left, are two steps of one run."""
    data = world.write(tmp_path / "rows.jsonl", [world.record("Which?", world.STEPS)])
    plain = {
        **LORA,
        "train_data": data,
        "optim": "sgd",
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": 1,
        "adapter_dtype": "float32",
    }
    assert sft.main(arguments(tmp_path / "two", **plain, max_steps=2)) == 0
    assert sft.main(arguments(tmp_path / "one", **plain, max_steps=1)) == 0
    from_one = {**plain, "adapter": tmp_path / "one", "max_steps": 1, "use_peft": "false"}
    assert sft.main(arguments(tmp_path / "then", **from_one)) == 0
    assert any(not torch.equal(a, b) for a, b in pairs(tmp_path / "one", tmp_path / "two"))
    for found, expected in pairs(tmp_path / "then", tmp_path / "two"):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)
    record = json.loads((tmp_path / "then" / "training_record.json").read_text())
    assert record["run"]["adapter"] == folder_fingerprint(tmp_path / "one")


def pairs(left: Path, right: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The weights of two adapters, name by name."""
    first, second = adapter(left), adapter(right)
    assert set(first) == set(second)
    return [(first[name], second[name]) for name in first]


MEASURED = {"eval_strategy": "steps", "eval_questions": world.folder()}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_length": 512}, "max_length is 512"),
        ({"packing": "true"}, "set padding_free: true"),
        ({"padding_free": "true", "attn_implementation": "eager"}, "attention is 'eager'"),
        ({"kept_features_gb": -1}, "kept_features_gb is -1"),
        ({"vision_lr": 0.1}, "vision_lr is set, but vision is frozen"),
        ({"vision": "trained", "adapter": "/nowhere"}, "vision is trained and adapter is set"),
        ({"frames": 0}, "frames is 0"),
        ({"eval_strategy": "steps"}, "nothing to evaluate on"),
        ({"eval_questions": "pocket:val"}, "eval_strategy is 'no'"),
        ({"model_name_or_path": "/nowhere"}, "there is no such folder"),
        ({"train_data": "/nowhere.jsonl"}, "cannot be read"),
        ({"config": "/nowhere.yaml"}, "nowhere.yaml"),
        ({"learning_rat": 1}, "learning_rat"),
        ({"eval_modules": "none", **MEASURED}, "eval_modules is 'none'"),
        ({"eval_modules": '{"encode": "none"}', **MEASURED}, "did you mean 'encoder'"),
        ({"load_in_4bit": "true"}, "need use_peft"),
        (
            {
                "vision": "trained",
                "use_peft": "true",
                "gradient_checkpointing": "true",
                "gradient_checkpointing_kwargs": '{"use_reentrant": true}',
            },
            "would get no gradients",
        ),
    ],
)
def test_invalid_settings_are_named(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft.main(arguments(tmp_path, **changes)) == 2
    assert said in capsys.readouterr().err


def test_a_choice_from_a_file_is_checked_as_a_flag_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("adapter_dtype: bfloat61\n")
    assert sft.main(arguments(tmp_path, config=settings)) == 2
    assert "adapter_dtype is 'bfloat61'" in capsys.readouterr().err
