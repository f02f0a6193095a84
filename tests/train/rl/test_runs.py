"""Whole GRPO runs: the command, resumed, in two processes, from an adapter, with invalid settings."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from tests.support.grpo_world import SomeRewards, arguments
from tests.support.qwen_models import QUESTION, backbone, checkpoint, lora, pictures
from tests.support.training_runs import (
    adapter,
    assert_equal,
    evaluates,
    merge_into,
    saves,
    spread_over_two,
    whole_and_resumed,
)
from videopro.backbones import Backbone, BackboneConfig, load_backbone
from videopro.train import grpo as command
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import read_settings
from videopro.video import Video


def run(output: Path, **changes: Any) -> Any:
    return command.train(*read_settings(VideoGRPOConfig, "grpo", arguments(output, **changes)))


@pytest.fixture
def some_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ProgramRewards", SomeRewards)


def programs(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "programs.jsonl").read_text().splitlines()]


def test_the_replies_of_an_evaluation_are_kept_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two steps of a group of four, each followed by two replies to each of two held-out prompts. The replies
    of an untrained model earn nothing, and the run says so at its end."""
    taught, held_out = grpo.rows()[:1], [replace(row, id=f"held-out {row.id}") for row in grpo.rows()[1:3]]
    for name, rows in (("grpo.jsonl", taught), ("held_out.jsonl", held_out)):
        world.write(tmp_path / name, [grpo.record(row) for row in rows])
    evaluation = {"eval_data": tmp_path / "held_out.jsonl", **evaluates(every=1)}
    batches = {"num_generations_eval": 2, "per_device_eval_batch_size": 2}
    output = tmp_path / "run"
    made = run(output, log_completions="true", num_completions_to_print=0, **evaluation, **batches)
    ids = {True: [row.id for row in held_out for _ in range(2)], False: [taught[0].id] * 4}
    for step in (1, 2):
        table = pd.read_parquet(output / "completions" / f"completions_0000{step}.parquet")
        assert list(table["id"]) == ids[False]
        assert set(table["evaluation"]) == {False}
    for of in (True, False):
        assert [line["id"] for line in programs(output) if line["evaluation"] == of] == ids[of] * 2
    logged = [line for line in made.state.log_history if "loss" in line]
    assert [line["rewards/accuracy/mean"] for line in logged] == [0.0, 0.0]
    assert "warning: no reply earned a reward in any logged step" in capsys.readouterr().err
    record = json.loads((output / "training_record.json").read_text())
    assert record["kinds"] == {"plan": 1}


def test_a_run_of_two_turns(tmp_path: Path) -> None:
    """Every plan is followed by a bug fix, and refinements are not."""
    # One group per step: an epoch over the five rows, two of which are plans.
    made = run(tmp_path / "run", episodes="two_turn", max_steps=5)
    lines = programs(tmp_path / "run")
    assert [line["kind"] for line in lines].count("plan") == 8
    assert len(lines) == 20
    assert all((line["refined"] is not None) == (line["kind"] == "plan") for line in lines)
    # Up to six tokens per turn.
    assert all(line["tokens"] <= (12 if line["kind"] == "plan" else 6) for line in lines)
    assert max(line["tokens"] for line in lines) > 6
    logged = [line["programs/refined"] for line in made.state.log_history if "loss" in line]
    assert sorted(logged) == [0.0, 0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("prompt_video", [True, False])
def test_a_run_on_release_rows(
    prompt_video: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of every layout are sampled and scored without a mode reward, and unusable ones dropped."""
    asked = "Question: Which car?\nChoices:\nA. a red car\nB. a blue car\n"
    video = [str(world.folder() / "videos" / "a.mp4")]
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    chats = [
        [{"role": "user", "content": f"<video>Plan.\n{asked}"}],
        [{"role": "user", "content": f"Current native visual program:\n{asked}<video>"}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"<video>{asked}"}],
    ]
    given = [{"messages": chat, "videos": video, "solution": "A"} for chat in chats]
    given.append({"messages": chats[0], "videos": video})
    if prompt_video:
        given.append({**given[0], "videos": ["broken.mp4"]})
    data = world.write(tmp_path / "train_grpo.jsonl", given)
    changes = {"episodes": "two_turn"} if prompt_video else {"prompt_video": "false"}
    made = run(tmp_path / "run", train_data=data, max_steps=3, **changes)
    assert "3 of them have no oracle mode" in capsys.readouterr().out
    lines = programs(tmp_path / "run")
    assert {line["id"] for line in lines} == {"line 1", "line 2", "line 3"}
    assert {line["rewards"]["mode_consistency"] for line in lines} == {None}
    assert len([line for line in made.state.log_history if "loss" in line]) == 3
    record = json.loads((tmp_path / "run" / "training_record.json").read_text())
    assert record["rows"] == 3
    assert list(record["dropped"]) == ["train_grpo.jsonl, line 4", *["line 5"] * prompt_video]
    assert made._prompt_encoder.looked == int(prompt_video)


@pytest.mark.parametrize(
    ("history", "warning"),
    [
        ([{"reward": 0.5, "grad_norm": 0.0}] * 2, "all gradients were 0"),
        ([{"reward": math.nan, "grad_norm": 0.0}, {"train_loss": 0.0}], "no reply earned a reward"),
        ([{"reward": 0.0, "grad_norm": 0.1}, {"reward": 0.1, "grad_norm": 0.0}], None),
        ([{"train_loss": 0.0}], None),
    ],
    ids=["equal rewards", "all left out", "one step learned", "nothing logged"],
)
def test_a_run_that_learned_nothing_says_so(history: list[dict[str, float]], warning: str | None) -> None:
    found = command._nothing_learned(history)
    assert found is None if warning is None else warning in str(found)


@pytest.mark.usefixtures("some_rewards")
@pytest.mark.parametrize("episodes", [pytest.param("single", marks=pytest.mark.long), "two_turn"])
def test_a_resumed_run_ends_with_the_same_weights_to_the_last_bit(tmp_path: Path, episodes: str) -> None:
    # Epochs of two steps: resumed in the middle of the second.
    changes = {"episodes": episodes, "max_steps": 5, "gradient_accumulation_steps": 2, **saves(every=3)}
    whole_and_resumed(command.main, lambda output: arguments(output, **changes), tmp_path, steps=5)


@pytest.mark.usefixtures("some_rewards")
def test_a_merged_planner_is_trained_and_its_base_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No setting names the base: the merged checkpoint records it, and so does what is trained from it. It
    also records that the adapter was fine-tuned on one of the three videos."""
    lora("qwen3_vl", tmp_path / "sft")
    taught = Video.open(world.folder() / "videos" / "a.mp4").id
    (tmp_path / "sft" / "training_record.json").write_text(json.dumps({"videos": {"sft": [taught]}}))
    assert merge_into(tmp_path / "merged", checkpoint("qwen3_vl"), tmp_path / "sft") == 0
    asked: list[BackboneConfig] = []

    def load(config: BackboneConfig) -> Backbone:
        asked.append(config)
        return load_backbone(config)

    monkeypatch.setattr(command, "load_backbone", load)
    run(tmp_path / "peft", model_name_or_path=tmp_path / "merged", max_steps=1)
    told = capsys.readouterr().err
    assert "warning: 1 of 3 videos in train_data were already used to fine-tune model" in told
    videos = json.loads((tmp_path / "peft" / "training_record.json").read_text())["videos"]
    assert (videos["sft"], len(videos["grpo"]), taught in videos["grpo"]) == ([taught], 3, True)
    base = str(checkpoint("qwen3_vl").resolve())
    assert [config.model for config in asked] == [base]
    planner = load_backbone(str(tmp_path / "merged"), adapter=str(tmp_path / "peft")).planner
    assert planner.base == base


@pytest.mark.usefixtures("some_rewards")
def test_training_continues_an_adapter_and_its_base_answers(tmp_path: Path) -> None:
    before = adapter(lora("qwen3_vl", tmp_path / "sft"))
    # Nothing is learned, and the reference of the KL term is the adapter itself.
    still = run(tmp_path / "still", adapter=tmp_path / "sft", learning_rate=0.0, beta=0.1, max_steps=1)
    assert_equal(adapter(tmp_path / "still"), before)
    assert [line["kl"] for line in still.state.log_history if "kl" in line] == pytest.approx([0.0], abs=1e-6)
    assert not (tmp_path / "still" / "ref").exists()
    run(tmp_path / "moved", adapter=tmp_path / "sft")
    moved = adapter(tmp_path / "moved")
    assert moved.keys() == before.keys()
    assert any(not torch.equal(moved[name], weight) for name, weight in before.items())
    # Who answers inside programs: the plain checkpoint, whatever was trained.
    answerers = SomeRewards.latest.backbone, backbone("qwen3_vl")
    answer, plain = (each.answer(pictures(4), QUESTION) for each in answerers)
    assert answer.letters == pytest.approx(plain.letters, abs=1e-6)


@pytest.mark.usefixtures("some_rewards")
def test_evaluation_does_not_change_training(tmp_path: Path) -> None:
    held_out = world.write(tmp_path / "held-out.jsonl", [grpo.record(row) for row in grpo.rows()[:2]])
    measured = {"eval_data": held_out, "eval_questions": held_out, "per_device_eval_batch_size": 4}
    made = run(tmp_path / "measured", **measured, **evaluates(every=1))
    run(tmp_path / "alone")
    assert_equal(adapter(tmp_path / "measured"), adapter(tmp_path / "alone"))
    rewards = [line["eval_reward"] for line in made.state.log_history if "eval_reward" in line]
    planned = [line for line in made.state.log_history if "eval_well_formed" in line]
    assert len(rewards) == len(planned) == 2
    # The one question of kind "plan".
    assert all(line["eval_questions"] == 1.0 for line in planned)


@pytest.mark.two_processes
@pytest.mark.parametrize(
    ("kind", "ahead"), [("ddp", False), ("zero2", False), ("zero3", False), ("zero3", True)]
)
def test_two_processes_take_the_steps_that_one_takes(kind: str, ahead: bool, tmp_path: Path) -> None:
    """Groups of four lie across processes with six replies each; the second round may be written ahead."""
    grpo.two_steps(tmp_path / "one", 12, ahead=ahead)
    more = ["ahead"] if ahead else []
    words = ["tests/support/grpo_world.py", str(tmp_path / "two"), "6", str(world.folder()), *more]
    spread_over_two(kind, words, tmp_path / "log")
    found, expected = adapter(tmp_path / "two"), adapter(tmp_path / "one")
    assert any(weight.any() for name, weight in expected.items() if "lora_B" in name)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"use_peft": "false"}, "set answerer"),
        ({"attn_implementation": "eager"}, "shared_prompt is true, but attention 'eager'"),
        ({"max_completion_length": "none"}, "max_completion_length"),
        # A step is of 6 x 4 replies, 4 to a prompt.
        ({"gradient_accumulation_steps": 6}, "5 prompts, but a step takes 6; lower"),
    ],
)
def test_what_a_model_cannot_be_trained_with_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments(tmp_path / "run", **changes)) == 2
    assert said in capsys.readouterr().err
