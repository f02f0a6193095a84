"""Whole fine-tuning runs, also in two processes that share weights as on GPUs, against one's steps."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint
from tests.support.training_reference import EVERYTHING, PLAIN, assert_same, expected_step
from tests.support.training_runs import (
    LORA,
    NO_MODELS,
    adapter,
    assert_equal,
    evaluates,
    flags,
    merge_into,
    saves,
    spread_over_two,
    two_processes,
    whole_and_resumed,
)
from videopro.backbones import load_backbone
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.train import sft
from videopro.train.runtime import RECORD


def test_a_planner_records_the_prompts_that_it_was_trained_on(tmp_path: Path) -> None:
    """An adapter, what is merged from it, and what is trained from it bring their prompts."""
    texts = {"plan": "plan {question} {choices}"}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(texts))
    once = {**LORA, "max_steps": 1}
    assert sft.main(flags(tmp_path / "first", **once, prompts=tmp_path / "p.yaml")) == 0
    assert json.loads((tmp_path / "first" / RECORD).read_text())["run"]["prompts"] == texts
    assert sft.main(flags(tmp_path / "second", **once, adapter=tmp_path / "first")) == 0
    base = str(checkpoint("qwen3_vl"))
    assert merge_into(tmp_path / "merged", base, tmp_path / "second") == 0
    for model, settings in (
        (base, {"adapter": str(tmp_path / "first")}),
        (base, {"adapter": str(tmp_path / "second")}),
        (str(tmp_path / "merged"), {}),
    ):
        planner = load_backbone(model, **settings).planner
        assert planner.prompts == texts
        assert planner.base == ("" if settings else str(Path(base).resolve()))
    plain = json.loads((tmp_path / "first" / "videopro.json").read_text())
    assert plain["planner"] == {"prompts": texts}


@pytest.mark.two_processes
def test_evaluation_in_two_processes_asks_each_question_once_and_changes_no_training(tmp_path: Path) -> None:
    asked = [grpo.row(number, "plan", video, "", id=video) for number, video in enumerate("abc")]
    changes = {**LORA, "max_steps": 3, "ddp_backend": "gloo", "per_device_train_batch_size": 1}
    questions = world.write(tmp_path / "held-out.jsonl", [grpo.record(row) for row in asked])
    measured = {"eval_questions": questions, "eval_modules": NO_MODELS, "eval_max_new_tokens": 4}
    measured |= evaluates(every=1)
    two_processes(["train/sft.py", *flags(tmp_path / "measured", **changes, **measured)], tmp_path / "log")
    two_processes(["train/sft.py", *flags(tmp_path / "alone", **changes)], tmp_path / "log")
    kept = (tmp_path / "measured" / "questions" / "step-000002.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in kept) == ["a", "b", "c"]
    assert_equal(adapter(tmp_path / "measured"), adapter(tmp_path / "alone"))


def test_a_resumed_run_ends_with_the_same_weights_to_the_last_bit(tmp_path: Path) -> None:
    """Epochs of two steps over rows that are grouped by length, resumed within the second."""
    changes = {**LORA, "lora_dropout": 0.2, "train_sampling_strategy": "group_by_length"}
    changes |= {"max_steps": 4, "per_device_train_batch_size": 2, **saves(every=3)}
    whole_and_resumed(sft.main, lambda output: flags(output, **changes), tmp_path, steps=4)


def test_an_unreadable_video_is_dropped_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    videos = {"lost-1": "broken.mp4", "lost-2": "missing.mp4", "lost-3": "broken.mp4"}
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    rows = [world.record("q", "a", video, id=name) for name, video in videos.items()]
    data = world.write(tmp_path / "rows.jsonl", [*rows, world.record("text", "b"), world.record("more", "b")])
    output = tmp_path / "run"
    changes = {"train_data": data, "num_train_epochs": 1, "per_device_train_batch_size": 1}
    assert sft.main(flags(output, **changes, use_peft="true")) == 0
    said = capsys.readouterr().err
    assert "3 rows dropped" in said
    assert re.search(r"  \S*broken\.mp4 \(lost-1, lost-3\): FFmpeg cannot read", said)
    assert re.search(r"  \S*missing\.mp4 \(lost-2\): no such file; check the path", said)
    record = json.loads((output / "training_record.json").read_text())
    assert record["rows"] == 2
    assert set(record["dropped"]) == set(videos)
    # Nothing took their place: one step for each row that is left.
    assert json.loads((output / "trainer_state.json").read_text())["global_step"] == 2
    # Unless a setting says otherwise, an adapter ends in half of its precision.
    assert {weight.dtype for weight in adapter(output).values()} == {torch.bfloat16}


def test_training_continues_an_adapter(tmp_path: Path) -> None:
    """One step of plain SGD, and one more from the adapter that it left, are two steps of one run."""
    data = world.write(tmp_path / "rows.jsonl", [world.record("Which?", world.STEPS)])
    plain = {**LORA, **PLAIN, "train_data": data, "lr_scheduler_type": "constant", "learning_rate": 0.1}
    assert sft.main(flags(tmp_path / "two", **{**plain, "max_steps": 2})) == 0
    assert sft.main(flags(tmp_path / "one", **plain)) == 0
    from_one = {**plain, "adapter": tmp_path / "one", "use_peft": "false"}
    assert sft.main(flags(tmp_path / "then", **from_one)) == 0
    one, then, two = (adapter(tmp_path / name) for name in ("one", "then", "two"))
    assert any(not torch.equal(one[name], weight) for name, weight in two.items())
    torch.testing.assert_close(then, two, rtol=0, atol=1e-7)
    record = json.loads((tmp_path / "then" / "training_record.json").read_text())
    assert record["run"]["adapter"] == folder_fingerprint(tmp_path / "one")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"padding_free": "true", "attn_implementation": "eager"}, "attention 'eager'"),
        (
            {
                "vision": "trained",
                "use_peft": "true",
                "gradient_checkpointing": "true",
                "gradient_checkpointing_kwargs": '{"use_reentrant": true}',
            },
            "reentrant",
        ),
    ],
)
def test_what_a_model_cannot_be_trained_with_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft.main(flags(tmp_path, **changes)) == 2
    assert said in capsys.readouterr().err


KINDS = ["fsdp", "zero2", "zero3"]


def spread(kind: str, output: Path, **changes: Any) -> None:
    """Fine-tune in two ranks, with the settings of this name."""
    own = {"ddp_backend": "gloo"} if kind == "ddp" else {"use_cpu": "false"}
    spread_over_two(kind, ["train/sft.py", *flags(output, **own, **changes)], output.parent / "log")


@pytest.mark.two_processes
@pytest.mark.parametrize(
    ("kind", "chosen"), [("ddp", [0, 1, 2, 3]), *((kind, [0, 3]) for kind in ("ddp", *KINDS))], ids=str
)
def test_a_step_of_all_weights_is_that_of_transformers(kind: str, chosen: list[int], tmp_path: Path) -> None:
    """Also with text alone on a rank, where DDP waits for the vision tower's gradients too."""
    data = world.write_chosen(tmp_path / "rows.jsonl", chosen)
    changes = {**PLAIN, **EVERYTHING, "train_data": data, "per_device_train_batch_size": len(chosen) // 2}
    spread(kind, tmp_path / "run", **changes)
    _, expected = expected_step("qwen3_vl", chosen)
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), expected)


@pytest.mark.two_processes
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_and_its_head_become_what_they_become_in_one_process(kind: str, tmp_path: Path) -> None:
    data = world.write_chosen(tmp_path / "rows.jsonl", [0, 1, 2, 3])
    changes = {**LORA, "lora_modules_to_save": "lm_head", "train_data": data}
    changes |= {"max_steps": 2, "optim": "sgd", "lr_scheduler_type": "constant"}
    batches = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    spread(kind, tmp_path / "two", **changes, **batches)
    batches = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    assert sft.main(flags(tmp_path / "one", **changes, **batches)) == 0
    expected = adapter(tmp_path / "one")
    assert any("lm_head" in name for name in expected)
    assert any(weight.any() for name, weight in expected.items() if "lora_B" in name)
    assert_same(adapter(tmp_path / "two"), expected)
