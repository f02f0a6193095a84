"""What a program's returned value says to an open question, and the modules' forms for one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.numbered import ReadingBackbone, context
from videopro.modules import ModuleLibrary, api_reference, available_modules
from videopro.modules.calls import AnswerHandle, modules_for, read_open_answer
from videopro.modules.errors import ArgumentError
from videopro.question import Answer, Question

OPEN = Question.open("What is it?")


def words(text: str, confidence: float = 0.7, mode: str = "frames", **more: Any) -> AnswerHandle:
    return AnswerHandle(Answer(None, confidence, {}, text), mode, **more)


RED, BOAT = words("a red lantern"), words("A boat.", 0.4)
CHOSEN = AnswerHandle(Answer("B", 0.9, {"A": 0.05, "B": 0.9}, "B"), "mc", ("a cup", "a book"))
COUNTED = AnswerHandle(Answer("3", 0.6, {"3": 0.6}, "D"), "count")
YES = AnswerHandle(Answer("Yes", 0.8, {"Yes": 0.8, "No": 0.1}, "Yes"), "yes_no", ("Yes", "No"))


@pytest.mark.parametrize(
    ("value", "text", "confidence", "claim"),
    [
        (RED, "a red lantern", 0.7, None),
        ((RED, 0.99), "a red lantern", 0.7, 0.99),
        ({"answer": RED, "confidence": 0.2}, "a red lantern", 0.7, 0.2),
        ("a red lantern", "a red lantern", 0.7, None),
        ("A red lantern.", "a red lantern", 0.7, None),  # the call's own words count
        ("a boat", "A boat.", 0.4, None),
        (("a green kite", 0.99), "a green kite", 0.0, 0.99),  # from no call
        (CHOSEN, "a book", 0.9, None),
        ("a book", "a book", 0.9, None),
        ("B", "a book", 0.9, None),
        (COUNTED, "3", 0.6, None),
        (3, "3", 0.6, None),
        (3.0, "3", 0.6, None),
        (4, "4", 0.0, None),
        (YES, "Yes", 0.8, None),
        (True, "Yes", 0.8, None),
        (False, "no", 0.0, None),
        (["a cup", "", "a kite"], "a cup, a kite", 0.0, None),
        ([RED, BOAT], "a red lantern, A boat.", 0.0, None),
        (None, "", 0.0, None),
        ("  ", "", 0.0, None),
        ([], "", 0.0, None),
        (("a cup", math.nan), "a cup, nan", 0.0, None),
        (AnswerHandle(Answer("a cup", 0.99, raw="a cup"), "result"), "a cup", 0.0, 0.99),
        (AnswerHandle(Answer("x", 0.99, raw="x"), "result", source=RED), "a red lantern", 0.7, 0.99),
    ],
)
def test_a_returned_value(value: Any, text: str, confidence: float, claim: float | None) -> None:
    answer, claimed = read_open_answer(value, [RED, BOAT, CHOSEN, COUNTED, YES])
    assert (answer.raw, answer.letter, answer.letters) == (text, None, {})
    assert answer.confidence == pytest.approx(confidence)
    assert claimed == claim


def test_the_last_call_with_these_words_counts_and_long_ones_are_cut() -> None:
    answer, _ = read_open_answer("a kite", [words("a kite", 0.2), words("A kite", 0.6)])
    assert answer.confidence == 0.6
    answer, _ = read_open_answer("x" * 1_000_000)
    assert len(answer.raw) == 4000


def test_query_native_answers_in_words_with_the_confidence_of_all_tokens() -> None:
    backbone = ReadingBackbone(writes=lambda request: "a red lantern")
    library = ModuleLibrary(context(backbone), question=OPEN)
    given: list[tuple[list[str], ...]] = [(), ([],)]
    for arguments in given:  # planners trained on options pass the empty `choices`
        answer = library.functions()["query_native"](library.video, "What is it?", *arguments)
        assert (answer.answer, answer.mode) == ("a red lantern", "words")
        # Eq. 2: each of the three tokens has log-probability -0.3, so their mean does too.
        assert answer.confidence == pytest.approx(math.exp(-0.3))
    assert backbone.prompts[-1] == "What is it?\nReply in a few words."


def test_query_mc_chooses_among_a_programs_own_options_or_answers_in_words() -> None:
    backbone = ReadingBackbone(writes=lambda request: "a kite")
    library = ModuleLibrary(context(backbone), question=OPEN)
    query = library.functions()["query_mc"]
    frames = library.functions()["extract_frames"](library.video, num_frames=2)
    assert query(frames, "What is it?").answer == "a kite"
    assert query(frames, "What is it?", [], context="A line.").answer == "a kite"
    assert query(frames, "What is it?", ["red", "green"]).choices == ("red", "green")
    with pytest.raises(ArgumentError, match="has 1 options; give 2 to 10"):
        query(frames, "What is it?", ["red"])


def test_modules_need_no_options_for_an_open_question_alone() -> None:
    made = context(ReadingBackbone())
    opened, closed = ModuleLibrary(made, question=OPEN), ModuleLibrary(made)
    hints = opened.functions()["get_subtitle_hints"]
    assert "Anna buys a lantern." in hints(opened.video, "What does Anna buy?")
    with pytest.raises(ArgumentError, match="missing 'choices'"):
        closed.functions()["query_native"](closed.video, "What is it?")
    text = api_reference(available_modules(made, is_open=True))
    assert "- `query_native(video, question)`: " in text
    assert "query_mc(frames, question, choices=(), context='')" in text
    assert "`query_native(video, question, choices)`" in api_reference(available_modules(made))
    assert list(modules_for(is_open=True)) == list(modules_for(is_open=False))
