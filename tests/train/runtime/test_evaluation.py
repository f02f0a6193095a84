"""What an evaluation on held-out rows and questions measures, and that training stays as it was."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import grpo_world
from tests.support import sft_world as world
from tests.support.qwen_models import PIXELS, checkpoint, load
from tests.support.scenes import SceneBackbone
from tests.support.training_reference import expected_step
from tests.support.training_runs import LORA, adapter, assert_equal, evaluates, flags, saves
from videopro.backbones import (
    Generation,
    ModelRecord,
    PlannerRecord,
    Sampling,
    folder_fingerprint,
)
from videopro.backbones.base import Awaited, Joining
from videopro.backbones.qwen import QwenBackbone, find_checkpoint
from videopro.errors import BenchmarkError, DatasetError
from videopro.methods.planners import answerer
from videopro.modules import library
from videopro.modules.calls import CallCache
from videopro.pocket import model_dir
from videopro.question import Answer
from videopro.traces import Failure, Result
from videopro.traces.scoring import PlanRecord, planning_metrics
from videopro.traces.scoring import plan_record as of_first
from videopro.train import grpo, sft
from videopro.train.finetune import VideoSFTTrainer, as_dataset
from videopro.train.runtime.evaluation import ProgramEvaluation, load_eval_questions
from videopro.train.runtime.trainer import preserved_random_state

NO_MODULES = dict.fromkeys(("encoder", "text_encoder", "ocr", "detector", "tracker"), "none")


def planned(**changes: Any) -> PlanRecord:
    return replace(PlanRecord("q", "raw", True, "native", "native", "ok", "A", True, None), **changes)


def test_metrics_are_shares_of_the_questions_that_could_be_asked() -> None:
    found = planning_metrics(
        [
            planned(),
            planned(well_formed=False, mode=None, status="failed", letter=None, correct=False),
            planned(mode="program", oracle="native", correct=False),
            planned(mode="program", oracle="program"),
            planned(oracle=None, status="empty", letter=None, correct=False),
            planned(error="no such file", error_type="VideoError", well_formed=False),
        ]
    )
    assert found == pytest.approx(
        {
            "questions": 5,
            "errors": 1,
            "well_formed": 4 / 5,
            "executed": 4 / 5,
            "answer_accuracy": 2 / 5,
            "native_share": 2 / 5,
            # Of four with an oracle: right on the first and the fourth; 1 of 3 native, 1 of 1 programs.
            "mode_accuracy": 2 / 4,
            "mode_balanced_accuracy": (1 / 3 + 1) / 2,
        }
    )


def test_an_error_that_a_planner_may_cause_leaves_no_denominator() -> None:
    failed = planned(error="x", well_formed=False, mode=None, status="", letter=None, correct=False)
    lost, shown = (replace(failed, error_type=kind) for kind in ("UnexpectedError", "SubtitleError"))
    found = planning_metrics([planned(), lost, shown])
    assert (found["questions"], found["errors"]) == (2, 1)
    assert (found["answer_accuracy"], found["mode_accuracy"]) == (1 / 2, 1 / 2)
    ended = Result(error=Failure("UnexpectedError", "ValueError: no"))
    assert of_first("q", ended, {}, gold="A", choices=("red", "blue")).error_type == "UnexpectedError"
    assert "mode_accuracy" not in planning_metrics([planned(oracle=None)])
    assert "mode_balanced_accuracy" not in planning_metrics([planned()])
    none = planning_metrics([planned(error="x", error_type="VideoError")])
    assert none == {"questions": 0.0, "errors": 1.0}


def test_an_option_with_the_right_options_text_is_right() -> None:
    answered = Result(final=Answer("C", 0.9, {}, "C"))
    assert of_first("q", answered, {}, gold="A", choices=("red", "blue", "red")).correct
    assert not of_first("q", answered, {}, gold="A", choices=("red", "blue", "green")).correct
    assert not of_first("q", Result(), {}, gold="A", choices=("red", "blue")).correct


def lines(**changes: Any) -> list[dict[str, Any]]:
    """Two questions of `grpo.jsonl`, and a refinement of the first."""
    rows = []
    for number, mode in enumerate(("native", "program")):
        question = world.QUESTIONS[number]
        asked = {"question": question.text, "choices": list(question.choices), "answer": "B"}
        row = {"id": f"q{number}", "question_id": f"q{number}", "kind": "plan", "prompt": "", **asked}
        row |= {"video": f"videos/{'ab'[number]}.mp4", "subtitles": None, "oracle_mode": mode}
        rows += [row, {**row, "id": f"r{number}", "kind": "native_refinement"}]
    rows[0].update(changes)
    return rows


def test_questions_of_a_grpo_file_are_its_plans(tmp_path: Path) -> None:
    held_out = load_eval_questions(str(world.write(tmp_path / "grpo.jsonl", lines())), limit=None, seed=0)
    assert [item.id for item in held_out.items] == ["q0", "q1"]
    assert held_out.oracle == {"q0": "native", "q1": "program"}
    assert held_out.items[0].question == world.QUESTIONS[0]
    assert held_out.items[0].video == tmp_path / "videos" / "a.mp4"
    assert len(load_eval_questions(str(tmp_path / "grpo.jsonl"), limit=1, seed=0).items) == 1


def test_questions_of_a_folder(tmp_path: Path) -> None:
    row = {"id": "q", "video": "v.mp4", "question": "Which?", "choices": ["a", "b"], "answer": "A"}
    world.write(tmp_path / "questions.jsonl", [row])
    held_out = load_eval_questions(str(tmp_path), limit=None, seed=0)
    assert ([item.id for item in held_out.items], held_out.oracle) == (["q"], {})
    world.write(tmp_path / "questions.jsonl", [{**row, "answer": None}])
    with pytest.raises(DatasetError, match="'q' has no answer"):
        load_eval_questions(str(tmp_path), limit=None, seed=0)
    with pytest.raises(BenchmarkError):
        load_eval_questions("pocket:nowhere", limit=None, seed=0)


CHAT = {"messages": [{"role": "user", "content": "<video>Q"}], "videos": ["a.mp4"], "solution": "A"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lines(oracle_mode="both"), "line 1: oracle_mode is 'both'"),
        (lines()[1:2], "no questions of kind 'plan'"),
        ([CHAT], "line 1: no column 'question'"),
    ],
)
def test_unusable_questions_are_named(tmp_path: Path, given: list[dict[str, Any]], said: str) -> None:
    path = world.write(tmp_path / "grpo.jsonl", given)
    with pytest.raises(DatasetError, match=said):
        load_eval_questions(str(path), limit=None, seed=0)


@pytest.fixture
def untrained(tmp_path: Path) -> VideoSFTTrainer:
    """A planner with an adapter that has learned nothing."""
    return world.trainer("qwen3_vl", world.settings(tmp_path / "planner"), world.rows()[:2])


@pytest.fixture
def by_heart(untrained: VideoSFTTrainer, monkeypatch: pytest.MonkeyPatch) -> VideoSFTTrainer:
    """A planner that writes a native program for the first question, one of steps for the second."""

    def written(self: QwenBackbone, sampling: Sampling, joining: Joining) -> None:
        while asked := joining.take(8):
            for one in asked:
                text = world.NATIVE if world.QUESTIONS[0].text in one.request.text else world.STEPS
                one.done(Generation(text, (), (), "stop", 1))

    monkeypatch.setattr(QwenBackbone, "generate_joining", written)
    return untrained


def evaluation(log: Path, longest: int = 400, **changes: Any) -> ProgramEvaluation:
    """Of the two questions, the first with these changes."""
    held_out = world.write(world.folder() / "held-out.jsonl", lines(**changes))
    return ProgramEvaluation(
        load_eval_questions(str(held_out), limit=None, seed=0),
        find_checkpoint(str(checkpoint("qwen3_vl"))),
        frames=world.FRAMES,
        pixels=PIXELS,
        modules=NO_MODULES,
        fallback="none",
        max_new_tokens=longest,
        log=log,
    )


def test_a_planner_scores_as_its_programs_do(by_heart: VideoSFTTrainer, tmp_path: Path) -> None:
    """Random weights are never confident: without an oracle mode, a question's is a program."""
    by_heart.state.global_step = 160
    found = evaluation(tmp_path)(by_heart)
    assert (found["questions"], found["well_formed"], found["executed"]) == (2, 1.0, 1.0)
    assert (found["mode_accuracy"], found["native_share"]) == (1.0, 0.5)
    kept = [json.loads(line) for line in (tmp_path / "step-000160.jsonl").read_text().splitlines()]
    assert [line["raw"] for line in kept] == [world.NATIVE, world.STEPS]
    assert found["answer_accuracy"] == sum(line["letter"] == "B" for line in kept) / 2
    by_heart.state.global_step = 161
    assert evaluation(tmp_path, oracle_mode=None)(by_heart)["mode_accuracy"] == 0.5
    kept = [json.loads(line) for line in (tmp_path / "step-000161.jsonl").read_text().splitlines()]
    assert [line["oracle"] for line in kept] == ["program", "program"]


def test_a_planner_sees_of_the_modules_what_its_rows_show(
    by_heart: VideoSFTTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    writes = QwenBackbone.generate_joining

    def noted(self: QwenBackbone, sampling: Sampling, joining: Any) -> None:
        def take(room: int) -> Sequence[Awaited]:
            taken = joining.take(room)
            shown.extend(one.request.text for one in taken)
            return taken

        writes(self, sampling, SimpleNamespace(pause=joining.pause, take=take))

    monkeypatch.setattr(QwenBackbone, "generate_joining", noted)
    replace(evaluation(tmp_path), reference="signatures")(by_heart)
    assert ["- `extract_frames(" in text for text in shown] == [True, True]


def test_the_base_of_a_merged_planner_answers_and_decides_the_oracle(
    by_heart: VideoSFTTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter on a merged planner: with the adapter off, that planner is left, which is not to answer."""
    base = SceneBackbone()
    monkeypatch.setattr(answerer, "load_backbone", lambda config: base)
    monkeypatch.setattr(QwenBackbone, "answer_batch", None)
    monkeypatch.setattr(library, "_cache", CallCache())
    measured = evaluation(tmp_path, oracle_mode=None)
    record = PlannerRecord("pocket", folder_fingerprint(model_dir()))
    measured.checkpoint = replace(measured.checkpoint, record=ModelRecord(planner=record))
    found = measured(by_heart)
    assert (found["questions"], found["executed"]) == (2, 1.0)
    # The oracle of the first question, and the answers of both programs.
    first, second = (question.text for question in world.QUESTIONS[:2])
    assert [first in text for text, _ in base.asked] == [True, True, False]
    assert second in base.asked[2][0]


@pytest.mark.parametrize("adapted", [True, False])
def test_only_the_bases_answers_are_cached_across_steps(adapted: bool, tmp_path: Path) -> None:
    config = world.settings(tmp_path)
    trainer = world.trainer("qwen3_vl", config, world.rows()[:1], use_peft=adapted)
    measured = evaluation(tmp_path, longest=4)
    answering, writing = [], []
    for step in (1, 2):
        trainer.state.global_step = step
        measured(trainer)
        backbone = measured._backbone
        writing.append(backbone.identity())
        with backbone.adapter(False):
            answering.append(backbone.identity())
    assert writing[0] != writing[1]
    assert (answering[0] == answering[1]) == adapted
    base = load("qwen3_vl").identity()["weights"]
    assert (answering[1]["weights"] == base) == adapted


def test_evaluation_does_not_change_training(
    untrained: VideoSFTTrainer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Neither what the planner writes itself, nor programs that are run."""
    model = untrained.model
    weights = {name: weight.clone() for name, weight in model.named_parameters()}
    gradients = {name: weight.requires_grad for name, weight in model.named_parameters()}
    assert any(gradients.values())
    model.train()
    state = torch.get_rng_state()
    evaluation(tmp_path, longest=8)(untrained)
    request.getfixturevalue("by_heart")
    assert evaluation(tmp_path)(untrained)["executed"] == 1.0
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: weight.requires_grad for name, weight in model.named_parameters()} == gradients
    assert all(torch.equal(weight, weights[name]) for name, weight in model.named_parameters())
    batch = world.batch("qwen3_vl", [0, 3])
    assert untrained.compute_loss(model, batch).requires_grad


def test_a_lost_video_is_counted_and_leaves_the_rest(
    by_heart: VideoSFTTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluation(tmp_path, video="videos/lost.mp4")(by_heart)
    assert (found["questions"], found["errors"]) == (1, 1)
    assert found["well_formed"] == 1.0
    assert "evaluation: skipped questions:\n  q0: " in (said := capsys.readouterr().err)
    assert "lost.mp4: " in said


def test_metrics_are_added_to_the_evaluations_of_a_run(tmp_path: Path) -> None:
    output, questions = tmp_path / "run", world.write(world.folder() / "held-out.jsonl", lines())
    measured = {"eval_data": world.folder() / "sft.jsonl", "eval_questions": questions, **evaluates(every=2)}
    measured |= {"eval_modules": json.dumps(NO_MODULES), "eval_max_new_tokens": 8}
    best = {"load_best_model_at_end": "true", "metric_for_best_model": "eval_well_formed", **saves(every=2)}
    assert sft.main(flags(output, **measured, **best, max_steps=4, use_peft="true")) == 0
    history = json.loads((output / "training_record.json").read_text())["history"]
    measured = [line for line in history if "eval_well_formed" in line]
    assert [(line["step"], line["eval_questions"]) for line in measured] == [(2, 2), (4, 2)]
    # An evaluation's line does not take the averages of the training's.
    assert not any("mean_token_accuracy" in line for line in measured)
    assert [line["step"] for line in history if "eval_loss" in line] == [2, 4]
    state = json.loads((output / "trainer_state.json").read_text())
    assert state["best_metric"] == 0.0


ROWS = [0, 1, 3, 2, 1]


def test_the_loss_is_a_mean_over_all_tokens_whatever_the_batch_size(tmp_path: Path) -> None:
    trainer = world.trainer("qwen3_vl", world.settings(tmp_path), world.rows())
    dataset = as_dataset([world.rows()[number] for number in ROWS])
    expected, _ = expected_step("qwen3_vl", ROWS)
    for size in (1, 2, 5):
        trainer.args.per_device_eval_batch_size = size
        assert trainer.evaluate(dataset)["eval_loss"] == pytest.approx(expected, abs=1e-4)


def test_rows_repeated_for_a_second_process_count_once(
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
    given = {**LORA, "max_steps": 2, "lora_dropout": 0.3}
    measured = {"eval_data": world.folder() / "sft.jsonl", **evaluates(every=1)}
    assert sft.main(flags(tmp_path / "measured", **given, **measured)) == 0
    assert sft.main(flags(tmp_path / "alone", **given)) == 0
    history = json.loads((tmp_path / "measured" / "training_record.json").read_text())["history"]
    assert len([line for line in history if "eval_loss" in line]) == 2
    assert_equal(adapter(tmp_path / "measured"), adapter(tmp_path / "alone"))


def test_rewards_of_held_out_prompts_do_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    """A reply is drawn by its place among all held-out prompts."""
    trainer = grpo_world.trainer(
        "qwen3_vl", grpo_world.settings(tmp_path, temperature=1.5), grpo_world.rows()[:2]
    )
    found = []
    for size in (4, 8):
        trainer.args.per_device_eval_batch_size = size
        found.append(trainer.evaluate(trainer.train_dataset)["eval_reward"])
        assert trainer._eval_rows == 0
    assert found[0] == pytest.approx(found[1])
    assert found[0] != 0


def test_the_random_state_is_kept() -> None:
    def states() -> list[Any]:
        numpy: Any = np.random.get_state()
        return [random.getstate(), numpy[1].tolist(), torch.get_rng_state().tolist()]

    before = states()
    with preserved_random_state():
        assert random.random() + np.random.rand() + torch.rand(()) > 0
    assert states() == before


def test_all_weights_are_reinforced_with_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `beta` above 0 and no adapter to turn off, TRL loads one; only the first step's KL term is 0."""
    monkeypatch.setattr(grpo, "ProgramRewards", grpo_world.SomeRewards)
    whole = {"use_peft": "false", "answerer": checkpoint("qwen3_vl"), "learning_rate": 1e-3, "beta": 0.1}
    assert grpo.main(grpo_world.arguments(tmp_path / "run", **whole)) == 0
    history = json.loads((tmp_path / "run" / "training_record.json").read_text())["history"]
    divergence = [line["kl"] for line in history if "kl" in line]
    assert divergence[0] == pytest.approx(0, abs=1e-5)
    assert divergence[1] > 1e-3
