"""What a planner's prompts say of the modules: what it was trained with, of those that are there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import NATIVE, QUESTION, SceneBackbone
from videopro.backbones import ModelRecord, PlannerRecord
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.question import prompts

FRAMES = "- `extract_frames(video, num_frames=32)`"
LINE = (
    f"{FRAMES}: Take frames of the whole video or of a clip, evenly spread, at most one a second and at most "
    "num_frames -> a list of frames in order of time\n"
)
SHORT = prompts.plan(QUESTION)


def prompt(record: PlannerRecord | None, **options: Any) -> str:
    """The first prompt of a planner with this record."""
    backbone = SceneBackbone(lambda request: NATIVE)
    backbone.planner = record
    create("adaptive", {**OPTIONS, **options}).run(item(), context(backbone))
    ((request, _, _),) = backbone.written
    return request.text


def test_a_planner_is_told_what_it_was_trained_with() -> None:
    assert prompt(PlannerRecord()) == SHORT
    compact = prompt(PlannerRecord(reference="compact"))
    assert LINE in compact
    assert "Example" not in compact
    assert "What a program may import" not in compact
    # The form of a row: prompts.plan with this reference, and nothing else.
    reference = compact.split("Available functions\n\n")[1].split("\nQuestion:")[0]
    assert compact == prompts.plan(QUESTION, reference=reference)
    assert f"{FRAMES}\n" in prompt(PlannerRecord(reference="signatures"))
    assert "What a program may import" in prompt(None, planner_prompt="full")


def test_a_setting_counts() -> None:
    trained = PlannerRecord(reference="compact")
    assert prompt(trained, reference="none") == prompt(trained, planner_prompt="short") == SHORT
    assert prompt(PlannerRecord(), reference="compact") == prompt(trained)
    # A planner that was not trained gets the examples beside a shorter reference too.
    asked = prompt(None, planner_prompt="full", reference="compact")
    assert LINE in asked
    assert "Example" in asked
    assert "What a program may import" not in asked
    assert prompt(None, planner_prompt="short", reference="compact") == prompt(trained)


def test_a_users_prompts_show_what_the_planner_was_trained_with() -> None:
    own = {"plan": "{question}{choices}{api}"}
    assert LINE in prompt(PlannerRecord(prompts=own, reference="compact"))
    assert "What a program may import" not in prompt(PlannerRecord(prompts=own, reference="compact"))
    # Without a record of it, all that is known, as in earlier versions.
    assert "What a program may import" in prompt(PlannerRecord(prompts=own))
    assert LINE in prompt(PlannerRecord(prompts=own), reference="compact")


def test_a_group_that_is_left_out_is_not_shown() -> None:
    """Nor what has no model or no subtitles here: the clip index, OCR, hints."""

    def shown(**options: Any) -> set[str]:
        asked = prompt(PlannerRecord(reference="signatures"), **options)
        names = ("get_informative_clips", "run_ocr", "get_subtitle_hints", "trim_frames", "crop_left")
        return {name for name in names if f"- `{name}(" in asked}

    assert shown() == {"trim_frames", "crop_left"}
    assert shown(without=["localization"]) == {"crop_left"}
    assert shown(without=["extraction", "localization"]) == set()
    # Without a reference a planner cannot know.
    assert prompt(PlannerRecord(), without=["localization"]) == SHORT


def test_another_reference_than_that_of_the_training_is_named() -> None:
    def notes(record: PlannerRecord, **options: Any) -> list[str]:
        backbone = SceneBackbone(lambda request: NATIVE)
        backbone.planner, backbone.record = record, ModelRecord(planner=record)
        result = create("adaptive", {**OPTIONS, **options}).run(item(), context(backbone))
        return [note for note in result.notes if "trained" in note]

    compact = PlannerRecord(reference="compact")
    assert notes(compact) == notes(compact, reference="compact") == notes(PlannerRecord()) == []
    (said,) = notes(compact, planner_prompt="short")
    assert "was trained on prompts with reference=compact, and is asked with reference=none" in said
    (said,) = notes(PlannerRecord(), reference="compact")
    assert "was trained on prompts with reference=none, and is asked with reference=compact" in said


def test_the_pocket_teacher_reads_the_whole_reference() -> None:
    with pytest.raises(ConfigError, match="'pocket-teacher' reads the whole reference"):
        create("adaptive", {**OPTIONS, "planner": "pocket-teacher", "reference": "compact"})
