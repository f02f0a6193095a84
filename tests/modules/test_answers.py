"""Answers: how they behave inside a program, what answering modules ask, and what a returned value says."""

import math
from typing import Any

import pytest

from tests.support.numbered import CHOICES, ReadingBackbone, library, video
from videopro.executor import run
from videopro.modules.calls import (
    PRELUDE,
    AnswerHandle,
    BoxHandle,
    ClipHandle,
    LineHandle,
    read_program_answer,
)
from videopro.modules.library import ModuleLibrary
from videopro.question import Answer, Question

QUESTION = Question("Which colour?", CHOICES)


def answer(text: str, mode: str = "mc", confidence: float = 0.8, **more: Any) -> AnswerHandle:
    letters = more.pop("letters", {})
    return AnswerHandle(Answer(text or None, confidence, letters, text), mode, **more)


# ---- inside a program ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def handles() -> dict[str, Any]:
    return {
        "a": answer("B"),
        "y": answer("Yes", "yes_no"),
        "n": answer("No", "yes_no"),
        "u": answer("", "yes_no", 0.0),
        "w": answer("A red lantern", "frames"),
        "t": answer("3", "count"),
        "z": answer("0", "count"),
        "c": ClipHandle(video(), 10.0, 20.0, 0.5, "said"),
        "x": LineHandle(video(), 12.0, 14.0, 0.5, "Anna buys a lantern."),
        "b": BoxHandle(1.0, 2.0, 30.0, 40.0, "cat", 0.9),
    }


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(lambda letter, confidence: [letter, confidence])(*a)", ["B", 0.8]),
        ("[a['answer'], a['confidence'], a['raw_output'], a['metadata']['mode']]", ["B", 0.8, "B", "mc"]),
        ("[a[0], a[1], a[-1], len(a)]", ["B", 0.8, 0.8, 2]),
        ("[a.answer, a.confidence, a.get('answer'), a.get('nothing', 3)]", ["B", 0.8, "B", 3]),
        ("[a == 'B', a == ' b', a == 'A', a != 'B', 'B' == a]", [True, True, False, False, True]),
        ("[dict(a.items())['answer'], dict(a)['answer'], str(a), {'B': 1}[a]]", ["B", "B", "B", 1]),
        ("['B' in a, 'C' in a, 'answer' in a, a in ['A', 'B'], bool(a)]", [True, False, True, True, True]),
        ("f'{a} {a:>3} ' + a + '!' + a.lower()", "B   B B!b"),
        ("max([a, a], key=lambda one: one.confidence).answer", "B"),
        ("[y == 'Yes', y == 'yes', n == 'Yes', n == 'No']", [True, True, False, True]),
        ("[bool(y), bool(n), bool(u), y == True, n == False]", [True, False, False, True, True]),
        ("[any(one for one in [n, y, u]), 'yes' in y.lower()]", [True, True]),
        ("['lantern' in w, 'RED' in w, 'boat' in w]", [True, True, False]),
        ("[w.split()[1], w + '.']", ["red", "A red lantern."]),
        ("[t > 2, t >= 4, t < 5, 3 <= t, t == 3]", [True, False, True, True, True]),
        ("[t + 1, 1 + t, sum([t, t]), t - 1, 5 - t, int(t), list(range(t))]", [4, 4, 6, 2, 2, 3, [0, 1, 2]]),
        ("[bool(z), bool(t), t > z, t + z, f'{t:02d}']", [False, True, True, 3, "03"]),
        ("[list(c), c[0], c.duration, [s for s, e in [c]]]", [[10, 20], 10, 10, [10]]),
        ("[list(x), f'{x}', x.text]", [[12, 14], "Anna buys a lantern.", "Anna buys a lantern."]),
        ("[list(b), b[2] - b[0], b['score'], b.label, len(b)]", [[1, 2, 30, 40], 29, 0.9, "cat", 4]),
    ],
)
def test_what_a_program_does_with_what_calls_return(
    expression: str, value: Any, handles: dict[str, Any]
) -> None:
    program = f"def execute_command({', '.join(handles)}):\n    return [{expression}]"
    outcome = run(program, {}, handles, prelude=PRELUDE)
    assert outcome.status == "ok", outcome.log
    assert outcome.value[0] == value


def test_a_letter_is_not_a_number() -> None:
    outcome = run("def execute_command(a):\n    return a > 2", {}, {"a": answer("B")}, prelude=PRELUDE)
    assert (outcome.status, outcome.error and outcome.error.type) == ("failed", "TypeError")


# ---- what is asked ---------------------------------------------------------------------------------------


def asked(name: str, *args: Any, **keywords: Any) -> tuple[AnswerHandle, ReadingBackbone, ModuleLibrary]:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    frames = fns["trim_frames"](lib.video, 2, 4, num_frames=2)
    return fns[name](frames, *args, **keywords), backbone, lib


def test_an_answer_carries_the_backbones_confidence_and_letters() -> None:
    got, backbone, lib = asked("query_mc", "Which colour?", list(CHOICES), context=["It is told:", "a tale"])
    # Picture 10 modulo 3 options: the second.
    assert backbone.seen == [[10, 14]]
    assert (got.answer, got.confidence) == ("B", 0.8)
    assert got.metadata == {"mode": "mc", "letters": {"A": 0.05, "B": 0.8, "C": 0.05}}
    assert backbone.prompts[0].startswith("It is told:\na tale\nWhich colour?\nA. red\nB. green\nC. blue\n")
    assert lib.answers == [got]
    # A reply that cannot be read.
    got, _, _ = asked("query_mc", "(mumble)", list(CHOICES))
    assert (got.answer, got.confidence, got.raw_output) == ("", 0.0, "Hmm")


def test_yes_no_words_and_numbers() -> None:
    got, backbone, _ = asked("query_yn", "Is 14 shown?")
    assert (got.answer, got.confidence, got.metadata["letters"]) == ("Yes", 0.7, {"Yes": 0.7, "No": 0.2})
    assert backbone.prompts == ["Is 14 shown?\nReply with Yes or No only."]
    got, backbone, _ = asked("query_frames", "What is shown?")
    # exp of the mean of -0.2 and -0.4.
    assert (got.answer, got.confidence) == ("10 14", pytest.approx(math.exp(-0.3)))
    got, backbone, _ = asked("query_count", "people in red", most=5)
    # Picture 10 modulo 6 options, the fifth of which says 4.
    assert (got.answer, got.confidence, got.mode) == ("4", 0.8, "count")
    assert got.letters == {**dict.fromkeys("01235", 0.05), "4": 0.8}
    options = "A. 0\nB. 1\nC. 2\nD. 3\nE. 4\nF. 5 or more\n"
    assert f"How many people in red are there?\n{options}" in backbone.prompts[0]
    _, backbone, _ = asked("query_count", "How many goals are scored?")
    assert backbone.prompts[0].startswith("How many goals are scored?\nA. 0\n")


# ---- what a returned value says --------------------------------------------------------------------------


def mc(
    letter: str, confidence: float = 0.9, choices: tuple[str, ...] = CHOICES, mode: str = "mc"
) -> AnswerHandle:
    own = "ABCDEFGH"[: len(choices)]
    letters = {option: confidence if option == letter else 0.02 for option in own}
    return AnswerHandle(Answer(letter or None, confidence, letters, letter), mode, choices)


@pytest.mark.parametrize(
    ("value", "answers", "letter", "confidence", "claim"),
    [
        (mc("B"), [], "B", 0.9, None),
        (mc("B", mode="native"), [], "B", 0.9, None),
        (["B", 0.99], [mc("B", 0.6), mc("C", 0.7)], "B", 0.0, 0.99),
        ("C", [mc("B", 0.6), mc("C", 0.7), mc("", 0.0)], "C", 0.7, None),
        ("B", [mc("B", 0.6), mc("B", 0.8)], "B", 0.8, None),
        ("B", [mc("A", 0.6)], "B", 0.0, None),
        ({"answer": "B", "confidence": 0.97}, [], "B", 0.0, 0.97),
        ("green", [mc("B", 0.6)], "B", 0.6, None),
        ("The answer is (C).", [], "C", 0.0, None),
        ("I cannot tell", [mc("B", 0.6)], None, 0.0, None),
        (None, [mc("B", 0.6)], None, 0.0, None),
        (3, [], None, 0.0, None),
        (("B", float("nan")), [], "B", 0.0, None),
        (("B", 17), [], "B", 0.0, 1.0),
        (("B", True), [], "B", 0.0, None),
        (mc("", 0.0), [], None, 0.0, None),
    ],
)  # fmt: skip
def test_confidence_comes_from_answering_calls_only(
    value: Any, answers: list[AnswerHandle], letter: str | None, confidence: float, claim: float | None
) -> None:
    read, claimed = read_program_answer(value, QUESTION, answers)
    assert (read.letter, read.confidence, claimed) == (letter, confidence, claim)


def test_make_result_only_claims() -> None:
    lib = library()
    claimed = lib.functions()["make_result"]
    assert read_program_answer(claimed("B", 1.0), QUESTION, []) == (Answer("B", raw="B"), 1.0)
    read, claim = read_program_answer(claimed("B", 1.0), QUESTION, [mc("B", 0.4)])
    assert (read.letter, read.confidence, claim) == ("B", 0.4, 1.0)
    read, claim = read_program_answer(claimed(claimed(mc("C", 0.3), 0.8), 0.95), QUESTION, [mc("C", 0.6)])
    assert (read.letter, read.confidence, claim) == ("C", 0.3, 0.95)
    made = claimed("B", confidence=2.0, reason="seen", raw_output=mc("A"))
    assert (made.confidence, made.raw_output, made.metadata["reason"]) == (1.0, "A", "seen")
    assert lib.answers == []


def test_an_answer_about_other_options_means_the_same_text() -> None:
    # Asked with two of the three options, in another order: its A is the question's C.
    read, _ = read_program_answer(mc("A", 0.7, ("blue", "red")), QUESTION)
    assert (read.letter, read.confidence) == ("C", 0.7)
    assert read.letters == {"A": 0.02, "B": 0.0, "C": 0.7}
    # Options of another question: the letter itself says nothing certain about this one.
    read, _ = read_program_answer(mc("A", 0.7, ("yes", "no")), QUESTION)
    assert (read.letter, read.confidence, read.letters) == ("A", 0.0, {})
    assert read_program_answer("A", QUESTION, [mc("A", 0.7, ("yes", "no"))])[0].confidence == 0.0


def test_yes_numbers_and_words_are_the_option_that_reads_so() -> None:
    yes_no = Question("Is it?", ("No", "Yes"))
    assert read_program_answer(answer("Yes", "yes_no", 0.7), yes_no)[0].letter == "B"
    numbers = Question("How many?", ("2", "3", "4"))
    read, _ = read_program_answer(answer("3", "count", 0.6), numbers)
    assert (read.letter, read.confidence) == ("B", 0.6)
    # "A man" is text, not option A.
    assert read_program_answer(answer("A man", "frames", 0.6), QUESTION)[0].letter is None
    assert read_program_answer(answer("Blue.", "frames", 0.6), QUESTION)[0].letter == "C"


def test_options_that_repeat_keep_their_own_letters() -> None:
    twice = Question("Which?", ("red", "red", "blue"))
    read, _ = read_program_answer(mc("B", 0.7, ("red", "red", "blue")), twice)
    assert (read.letter, read.letters) == ("B", {"A": 0.02, "B": 0.7, "C": 0.02})
