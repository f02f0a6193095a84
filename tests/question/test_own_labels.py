"""Choices that bring their own labels are not shown with two."""

import json
from pathlib import Path

import pytest

from tests.support.colours import load_fake, make_video
from videopro import benchmarks
from videopro.commands.ask.command import main as ask
from videopro.question import without_own_labels

PLAIN = ("a cup", "a book", "a ball")
LABELS = ("{}. ", "({}) ", "{} - ", "{}、", "({}). ", "{}.", "**{}.** ", "<{}> ", "{}/ ")


@pytest.mark.parametrize(
    "choices",
    [
        *(tuple(map("{}{}".format, map(label.format, "ABC"), PLAIN)) for label in LABELS),
        ("Ａ．a cup", "Ｂ．a book", "Ｃ．a ball"),
        ("A) a cup", "B)a book", "C)  a ball "),
        ("Option A: a cup", "Option B: a book", "option C: a ball"),
        ("\ufeffA. a cup", "B.\u200b a book", "C. a ball"),
        PLAIN,
    ],
)
def test_labels_go(choices: tuple[str, ...]) -> None:
    assert without_own_labels(choices) == PLAIN


@pytest.mark.parametrize(
    "choices",
    [
        ("A. a cup", "B. a book", "a ball"),  # not all
        ("B. a cup", "A. a book"),  # of another order: they may be people's initials
        ("A. a cup", "(B) a book"),  # in two forms
        ("A. a cup", "b. a book"),
        ("A. Smith", "J. Jones"),
        ("A.I. research", "B.I. tools"),
        ("A-side", "B-side"),
        ("A/C", "B/D"),
        ("a.m. news", "b.c. finds"),
        ("**A. a cup**", "**B. a book**"),
        ("A cup", "B side"),
        ("A", "B"),
        ("A.", "B."),
        ("A. ", "B. x"),
        ("1. a cup", "2. a book"),
        ("a cup", "b"),
    ],
)
def test_other_choices_stay(choices: tuple[str, ...]) -> None:
    assert without_own_labels(choices) == choices


def test_a_folder_and_ask_show_one_label(tmp_path: Path) -> None:
    make_video(tmp_path / "v.mp4", "red")
    choices = ["A. red", "B. green", "C. blue"]
    line = {"id": "q", "video": "v.mp4", "question": "Which?", "choices": choices, "answer": "B"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(line))
    (item,) = benchmarks.load("jsonl", root=tmp_path).items
    assert item.question.lettered_choices() == "A. red\nB. green\nC. blue"
    assert item.answer == "B"
    prompt = tmp_path / "prompt.txt"
    words = [str(tmp_path / "v.mp4"), "Which?", "--choices", *choices, "--model", "m"]
    assert ask([*words, "--backbone", f"log={prompt}"], load=load_fake) == 0
    # The log has the prompt as a repr.
    assert r"A. red\nB. green\nC. blue\nReply" in prompt.read_text()
