"""Rows of the release's form: chats in which the question, the program and the kind stand in the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import sft_world as world
from tests.support.grpo_world import arguments
from videopro.errors import DatasetError
from videopro.question import Question
from videopro.train import grpo as command
from videopro.train.rl import as_dataset, read_grpo_rows
from videopro.train.runtime import row_of

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
    assert [row.kind for row in rows] == [
        *("plan", "bug_fix", "native_refinement", "program_refinement", "program_refinement", "plan")
    ]
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
    path = world.write(
        tmp_path / "g.jsonl", [chat(f"<video>{WEAK.replace(STEPS, program + chr(10) + STEPS)}", solution="B")]
    )
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "has no gold answer (answer, solution, gold, ground_truth), so no reply to it can be rewarded"),
        ({"solution": "E"}, "its gold answer solution='E' is not one of A, B, C, D"),
        ({"solution": "A", "answer": "B"}, "its gold answer answer='B', solution='A' is not one of"),
        ({"solution": 2}, "its gold answer solution=2 is not one of"),
        ({"solution": "A", "videos": []}, "has 1 <video> and 0 videos"),
        (
            {"solution": "A", "messages": [{"role": "user", "content": "<video>What?"}]},
            "has no columns 'quest",
        ),
        (
            {"solution": "A", "messages": [{"role": "user", "content": "Question: x\nChoices:\nA. y\n"}]},
            "the choices in its prompt cannot be told apart",
        ),
        (
            {
                "solution": "A",
                "messages": [{"role": "user", "content": "Question: x\nChoices:\nA. y\nB. z\nand\nC. w\n"}],
            },
            "the choices in its prompt cannot be told apart",
        ),
        ({"solution": "A", "kind": "other"}, "kind is 'other'"),
        ({"solution": "A", "prompt_video": "no"}, "prompt_video is 'no'"),
        ({"solution": "A", "oracle_mode": "both"}, "oracle_mode is 'both'"),
    ],
)
def test_rows_that_cannot_be_rewarded_are_left_out_and_named(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    good = chat(f"<video>{PLAN}", solution="B")
    path = world.write(tmp_path / "g.jsonl", [{**chat(f"<video>{PLAN}"), **changes}, good])
    found = read_grpo_rows(path)
    assert [row.id for row in found.rows] == ["line 2"]
    assert found.left_out[1].startswith(said)
    with pytest.raises(DatasetError, match="none of its 1 rows can be used"):
        read_grpo_rows(world.write(path, [{**chat(f"<video>{PLAN}"), **changes}]))


@pytest.mark.parametrize("prompt_video", [True, False])
def test_a_run_on_the_releases_form(
    prompt_video: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A random model writes no programs: what counts is that rows of every layout are sampled and scored, and
    that none of them has a mode reward."""
    video = [str(world.folder() / "videos" / "a.mp4")]
    system = {"role": "system", "content": "Be brief."}
    given = [
        chat(f"<video>{PLAN}", solution="B") | {"videos": video},
        chat(f"{UNSURE}<video>", solution="B") | {"videos": video},
        {"messages": [system, *chat(WEAK)["messages"]], "videos": video, "solution": "A"},
        chat(f"<video>{PLAN}") | {"videos": video},
    ]
    data = world.write(tmp_path / "train_grpo.jsonl", given)
    changes: dict[str, Any] = {"train_data": data, "max_steps": 3}
    changes |= {"episodes": "two_turn"} if prompt_video else {"prompt_video": "false"}
    made = command.train(*_read(arguments(tmp_path / "run", **changes)))
    said = capsys.readouterr()
    assert "train_grpo.jsonl: 3 rows, 1 left out: line 4: has no gold answer" in said.err
    assert "3 of them have no oracle mode and get no mode reward" in said.out
    assert "2 of them have a system turn or text before the video" in said.out
    lines = [json.loads(line) for line in (tmp_path / "run" / "programs.jsonl").read_text().splitlines()]
    assert {line["id"] for line in lines} == {"line 1", "line 2", "line 3"}
    assert {line["rewards"]["mode_consistency"] for line in lines} == {None}
    assert {line["rewards"]["format"] for line in lines} == {0.0}
    logged = [line for line in made.state.log_history if "loss" in line]
    assert len(logged) == 3
    record = json.loads((tmp_path / "run" / "training_record.json").read_text())
    assert list(record["dropped"]) == ["train_grpo.jsonl, line 4"]
    assert record["kinds"] == {"plan": 1, "native_refinement": 1, "program_refinement": 1}


def _read(words: list[str]) -> Any:
    from videopro.train.rl import VideoGRPOConfig
    from videopro.train.runtime import read_settings

    return read_settings(VideoGRPOConfig, "grpo", words)
