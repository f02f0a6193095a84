"""Rows of grpo.jsonl and of the release's form: which are accepted; and which prompts make a batch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from videopro.backbones.qwen import EncodedPrompt
from videopro.errors import DatasetError
from videopro.question import Question
from videopro.train.rl import as_dataset, read_grpo_rows
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length
from videopro.train.runtime import row_of
from videopro.train.settings import KINDS


def line(**changes: Any) -> dict[str, Any]:
    return {**grpo.record(grpo.rows()[1]), "video": "videos/b.mp4", **changes}


def test_rows_come_with_all_that_rewards_need(tmp_path: Path) -> None:
    given = [line(id=kind, kind=kind) for kind in KINDS]
    given[1] |= {"subtitles": "videos/b.srt", "subtitle_track": "de", "native_confidence": 0.25}
    given[2] |= {"video": "/elsewhere/c.mp4", "later": "fields are ignored"}
    found = read_grpo_rows(world.write(tmp_path / "grpo.jsonl", given))
    assert found.left_out == {}
    rows = found.rows
    assert [row.kind for row in rows] == list(KINDS)
    assert [row.video for row in rows[1:3]] == [tmp_path / "videos" / "b.mp4", Path("/elsewhere/c.mp4")]
    (columns,) = list(as_dataset(rows[1:2]))
    assert columns["prompt"] == [{"role": "user", "content": given[1]["prompt"]}]
    row = rows[1]
    assert row.subtitles == tmp_path / "videos" / "b.srt"
    for name in ("id", "answer", "oracle_mode", "subtitle_track"):
        assert getattr(row, name) == given[1][name]
    assert [row_of(columns) for columns in as_dataset(rows)] == rows


def test_kinds_are_chosen(tmp_path: Path) -> None:
    path = world.write(tmp_path / "grpo.jsonl", [line(id=kind, kind=kind) for kind in KINDS])
    assert [row.kind for row in read_grpo_rows(path, ["bug_fix", "plan"]).rows] == ["plan", "bug_fix"]
    world.write(path, [line(kind="plan")])
    with pytest.raises(DatasetError, match="no prompts of kind bug_fix: its 1 rows are of other kinds"):
        read_grpo_rows(path, ["bug_fix"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(world.record("q", "a", "v.mp4")), "line 1: this is a row for fine-tuning"),
        ("\n", "has no rows"),
        ("[1]", "line 1: must be an object, not list"),
    ],
)
def test_files_that_are_not_grpo_jsonl_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "grpo.jsonl").write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_grpo_rows(tmp_path / "grpo.jsonl")


def prompt(length: int) -> PolicyPrompt:
    return PolicyPrompt(EncodedPrompt((0,) * length, (0,) * length), torch.zeros(3, length), length)


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        # By hand: a batch's longest is at most twice its shortest.
        ([100, 2000, 200, 201, 100], [[0, 4, 2], [3], [1]]),
        ([7], [[0]]),
        ([], []),
    ],
)
def test_prompts_of_like_length_make_a_batch(lengths: list[int], batches: list[list[int]]) -> None:
    assert list(batches_by_length([prompt(length) for length in lengths])) == batches


# In the words of this test; the parts and their order are those of the paper's Figs. 9 and 11 to 13.
ASKED = (
    "Question: Which car: the red one?\nChoices:\nA. a red car\nB. a blue car: fast\nC. no car\nD. two cars\n"
)
NATIVE = "def execute_command(video, question):\n    return query_native(video, question, choices)"
STEPS = (
    "def execute_command(video_path, question, choices, duration):\n"
    "    frames = trim_frames(video_path, 0, 9)\n    return query_mc(frames, question, choices)"
)
PLAN = f"Define a function:\n<code>\ndef execute_command(video, question):\n    ...\n</code>\n\n{ASKED}"
BUG_FIX = (
    f"A program and a runtime error log.\n{ASKED}\nBuggy visual program: {NATIVE}\n"
    "Runtime error log: NameError\nRefine this visual program by fixing the bugs."
)
UNSURE = (
    f"A program that only uses query_native.\n\n{ASKED}\nCurrent native visual program:\n<code>\n{NATIVE}\n"
    "</code>\n\nRefine this visual program.\n<code>\ndef execute_command"
)
WEAK = f"A program.\n\n{ASKED}\nCurrent visual program:\n{STEPS}\n\nRefine this visual program to improve it."


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "videos": ["videos/a.mp4"], **fields}


def test_kind_question_and_gold_come_from_the_prompt(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    given = [
        chat(f"<video>{PLAN}", solution="B"),
        chat(f"<video>{BUG_FIX}", solution="<answer>C</answer>"),
        chat(f"{UNSURE}<video>", answer="a red car"),
        chat(f"<video>\n{WEAK}", gold="(D)"),
        {
            "messages": [system, *chat(WEAK)["messages"]],
            "video": "/data/b.mp4",
            "ground_truth": "A. a red car",
        },
        {
            "system": "S",
            "query": f"Look <video>: {PLAN}",
            "response": "a reply",
            "videos": "c.mp4",
            "solution": "A",
        },
    ]
    found = read_grpo_rows(world.write(tmp_path / "train_grpo.jsonl", given))
    assert found.left_out == {}
    rows = found.rows
    refinements = ["bug_fix", "native_refinement", "program_refinement", "program_refinement"]
    assert [row.kind for row in rows] == ["plan", *refinements, "plan"]
    assert [row.answer for row in rows] == ["B", "C", "A", "D", "A", "A"]
    question = Question("Which car: the red one?", ("a red car", "a blue car: fast", "no car", "two cars"))
    assert {row.question for row in rows} == {question}
    assert {row.oracle_mode for row in rows} == {None}
    assert [row.id for row in rows] == [f"line {number}" for number in range(1, 7)]
    assert [row.system for row in rows] == [None, None, None, None, "Be brief.", "S"]
    assert [row.before for row in rows] == ["", "", UNSURE, "", "", "Look "]
    assert [row.prompt for row in rows] == [PLAN, BUG_FIX, "", f"\n{WEAK}", WEAK, f": {PLAN}"]
    assert [row.video for row in rows[3:]] == [
        tmp_path / "videos" / "a.mp4",
        Path("/data/b.mp4"),
        tmp_path / "c.mp4",
    ]
    assert [row_of(columns) for columns in as_dataset(rows)] == rows


def test_a_question_inside_the_program_is_not_the_rows(tmp_path: Path) -> None:
    text = 'text = """\nQuestion: what?\n"""\n'
    program = STEPS.replace("    frames", f"    {text}    frames")
    asked = WEAK.replace(STEPS, f"{program}\n{STEPS}")
    path = world.write(tmp_path / "g.jsonl", [chat(f"<video>{asked}", solution="B")])
    (row,) = read_grpo_rows(path).rows
    assert row.question.text == "Which car: the red one?"


def test_a_rows_own_columns_take_precedence(tmp_path: Path) -> None:
    own: dict[str, Any] = {"question": "Where?", "choices": ["here", "there"], "prompt_video": False}
    own |= {"kind": "bug_fix", "oracle_mode": "native"}
    path = world.write(tmp_path / "g.jsonl", [chat(f"<video>{WEAK}", id=7, solution="there", **own)])
    (row,) = read_grpo_rows(path).rows
    assert (row.id, row.kind, row.oracle_mode, row.answer) == ("7", "bug_fix", "native", "B")
    assert not row.prompt_video
    assert row.question == Question("Where?", ("here", "there"))


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_rows_that_cannot_be_used_are_left_out_and_named(tmp_path: Path) -> None:
    unusable: list[tuple[dict[str, Any], str]] = [
        (line(video=None), "field 'video' is None"),
        (line(prompt=""), "field 'prompt' is ''"),
        (line(subtitle_track=2), "field 'subtitle_track' is 2"),
        (line(choices="red"), "field 'choices' is 'red'"),
        (line(answer="E"), "answer is 'E'; it must be one of A, B"),
        (line(kind="plans"), "kind is 'plans'"),
        (line(oracle_mode="both"), "oracle_mode is 'both'"),
        (line(subtitles=3), "field 'subtitles' is 3"),
        (line(prompt_video="no"), "prompt_video is 'no'"),
        (line(id="plan"), "id 'plan' repeats line 1"),
        (chat(PLAN), "no gold answer (answer, solution, gold, ground_truth)"),
        (chat(PLAN, solution="E"), "its gold answer solution='E' is not one of A, B, C, D"),
        (chat(PLAN, solution="A", answer="B"), "its gold answer answer='B', solution='A' is not one of"),
        (chat(PLAN, solution=2), "its gold answer solution=2 is not one of"),
        (chat(PLAN, solution="A", videos=[], messages=asked("<video>")), "1 <video> but 0 videos"),
        (chat("<video>What?", solution="A"), "no columns 'quest"),
        (chat("Question: x\nChoices:\nA. y\n", solution="A"), "cannot split the choices in its prompt"),
        (
            chat("Question: x\nChoices:\nA. y\nB. z\nand\nC. w\n", solution="A"),
            "cannot split the choices in its prompt",
        ),
        (chat(PLAN, solution="A", kind="other"), "kind is 'other'"),
    ]
    path = world.write(tmp_path / "g.jsonl", [line(id="plan"), *(row for row, _ in unusable)])
    found = read_grpo_rows(path)
    assert [row.id for row in found.rows] == ["plan"]
    assert list(found.left_out) == [*range(2, 2 + len(unusable))]
    for reason, (row, said) in zip(found.left_out.values(), unusable, strict=True):
        assert reason.startswith(said), row
    with pytest.raises(DatasetError, match="all 1 rows are unusable"):
        read_grpo_rows(world.write(path, [unusable[0][0]]))
