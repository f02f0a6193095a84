"""What rows say of the modules, and what a trained planner records of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import sft_world as world
from tests.support.reason_world import NATIVE, QUESTION, SceneBackbone, reply
from tests.support.reward_world import checked, make, score
from tests.support.reward_world import row as reward_row
from tests.support.training_runs import LORA, flags
from videopro.backbones import PlannerRecord, read_model_record
from videopro.errors import DatasetError
from videopro.question import prompts
from videopro.train import sft
from videopro.train.finetune import read_rows
from videopro.train.rl import GRPORow, RefinementTurns, as_dataset
from videopro.train.runtime import read_reference, reference_of, row_of

SHOWN = {"reference": "signatures", "modules": ["query_native", "extract_frames", "query_mc"]}


def grpo_row(**changes: Any) -> GRPORow:
    shown = {"reference": "signatures", "modules": ("query_native", "run_ocr")}
    return GRPORow(**vars(checked(**changes)), prompt="Plan.", **shown)  # type: ignore[arg-type]


def test_what_rows_say_of_the_modules() -> None:
    assert read_reference({"messages": []}, "here") == read_reference({"reference": None}, "here")
    assert read_reference({}, "here").reference == "none"
    assert vars(read_reference(SHOWN, "here")) == {**SHOWN, "modules": tuple(SHOWN["modules"])}
    with pytest.raises(DatasetError, match="here: reference is 'compat'"):
        read_reference({**SHOWN, "reference": "compat"}, "here")
    with pytest.raises(DatasetError, match="here: modules is None"):
        read_reference({"reference": "compact"}, "here")
    rows = [grpo_row(), grpo_row()]
    assert (reference_of(rows), reference_of([])) == ("signatures", "none")
    with pytest.raises(DatasetError, match="2 with reference=signatures, 1 with reference=compact"):
        reference_of([*rows, replace(rows[0], reference="compact")])


def test_the_planner_records_what_its_rows_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that continues an adapter, with a word about what that was trained with."""
    given = [json.loads(line) for line in (world.folder() / "sft.jsonl").read_text().splitlines()]
    for row in given:
        row["videos"] = [str(world.folder() / path) for path in row.get("videos", [])]
    shown = world.write(tmp_path / "shown.jsonl", [{**row, **SHOWN} for row in given])
    words = {"frames": 2, "pixels": 4096, "max_steps": 1, **LORA}
    assert sft.main(flags(tmp_path / "run", train_data=shown, **words)) == 0
    assert read_model_record(tmp_path / "run").planner == PlannerRecord(reference="signatures")
    assert "reference" not in capsys.readouterr().err
    plain = world.write(tmp_path / "plain.jsonl", given)
    more = {**words, "adapter": tmp_path / "run", "train_data": plain}
    assert sft.main(flags(tmp_path / "next", **more)) == 0
    assert read_model_record(tmp_path / "next").planner == PlannerRecord()
    assert "reference=signatures, and the rows have reference=none" in capsys.readouterr().err
    mixed = world.write(tmp_path / "mixed.jsonl", [{**given[0], **SHOWN}, *given[1:]])
    assert sft.main(flags(tmp_path / "mixed", train_data=mixed, **words)) == 2
    assert [row.reference for row in read_rows(mixed).rows][:2] == ["signatures", "none"]


def test_a_second_turn_shows_the_modules_of_its_row() -> None:
    row = grpo_row()
    assert [row_of(columns) for columns in as_dataset([row])] == [row]
    with make() as rewards:
        (found,) = RefinementTurns(rewards, 0.75)([row], [NATIVE])
    reference = "- `run_ocr(frame)`\n- `query_native(video, question, choices)`\n"
    assert found is not None
    assert found.prompt == prompts.native_refinement(QUESTION, prompts.NATIVE_PROGRAM, reference=reference)
    assert (found.reference, found.modules) == (row.reference, row.modules)


def test_a_program_is_rewarded_in_the_world_that_its_row_describes() -> None:
    """What the row does without cannot be called; another row about the same question still can."""
    text = reply(
        'intervals, clips = get_informative_clips(video, "red", top_k=1)\n'
        "return query_mc(extract_frames(clips[0]), question, choices)"
    )
    with make(SceneBackbone()) as rewards:
        rows = [reward_row(without=[]), reward_row(without=["retrieval"]), reward_row(without=["extraction"])]
        accuracies = [accuracy for accuracy, _, _ in score(rewards, rows, [text] * 3)]
    assert accuracies == [1, 0, 1]
    with pytest.raises(DatasetError, match="without is 'retrieval'"):
        checked(without="retrieval")
