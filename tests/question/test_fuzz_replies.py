"""Fuzz tests of what reads a model's words: letters, boxes, grades. Long run: see `tests.support.fuzzing`."""

import time

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.fuzzing import FUZZ, odd_text, repeated
from videopro.benchmarks.mmbench_video import PROTOCOLS
from videopro.modules.models.detection import parse_boxes
from videopro.question import OFFICIAL_EXTRACTORS, Question, extract_letter
from videopro.runs.grading import read_grade, read_official

COLOURS = Question("Which colour?", ("red", "blue", "green", "A dog runs. Then (B) stops"))
JUDGE = next(protocol.judge for protocol in PROTOCOLS if protocol.judge is not None)
MARKS = """
<answer> </answer> <final> </final> <think> </think> <|im_end|> < <b> </s> \\boxed{ \\text{ { } [ ] ( ) ```
. ? ** ` $ ✓ 答案是A 选 Ａ A red 3 4 - / {"answer":
"""
UNITS = (
    *MARKS.split(),
    *('{"answer": "B"}', "{answer: A,", "```json\n", "Answer: A\n", "the answer is B. ", "Final answer: "),
    *("Answer:", "B. ", "(C) ", "D) red\n", "wait, ", "not ", "so ", "it is ", "maybe B ", "likely, "),
    *("option B is correct ", "A or B ", "The answer is red (B) ", "fits a b c best ", "\n", "\n\n", " "),
    *("\t", "[1, 2, 3, 4]", '{"bbox_2d": [1, 2, 3, 4]}', '{"bbox_2d": [', "1e999, ", "4 of 5"),
)
replies = repeated(UNITS)


@FUZZ
@given(replies)
@example('{"answer": ' + "[" * 5000 + "}")
def test_a_reply_gives_a_letter_of_the_question_or_none(reply: str) -> None:
    start = time.process_time()
    assert extract_letter(reply, COLOURS) in (*COLOURS.letters, None)
    assert time.process_time() - start < 10


@FUZZ
@given(replies)
def test_a_lone_letter_in_the_marked_place_is_read_whatever_precedes_it(reply: str) -> None:
    """After a thinking block, none of its text counts."""
    thought = reply.replace("<", "").replace(">", "")
    assert extract_letter(f"<think>{thought}</think>B", COLOURS) == "B"


@FUZZ
@given(replies, st.sampled_from(sorted(OFFICIAL_EXTRACTORS)))
@example('```json\n{"result": ' + "[" * 5000 + "}\n```", "cgbench_6677fe3")
def test_an_official_reader_gives_a_text_or_none(reply: str, reader: str) -> None:
    found = OFFICIAL_EXTRACTORS[reader](reply, COLOURS)
    assert found is None or isinstance(found, str)


@FUZZ
@given(replies)
@example("[" * 5000)
@example("[1, [1, " * 3000)
@example('{"bbox_2d": ' + "[" * 800 + "]" * 800 + "}")
@example("[" + "9" * 400 + ", 1, 2, 3]")
@example("[" + "9" * 5000 + ", 1, 2, 3]")
def test_boxes_are_four_finite_numbers(reply: str) -> None:
    start = time.process_time()
    for box in parse_boxes(reply):
        assert len(box) == 4
        assert all(isinstance(number, float) and abs(number) < float("inf") for number in box)
    assert time.process_time() - start < 10


@FUZZ
@given(st.one_of(replies, odd_text))
@example("9" * 5000)
def test_a_grade_is_a_number_of_the_scale_or_none(reply: str) -> None:
    grade = read_grade(reply, JUDGE)
    assert grade is None or JUDGE.low <= grade <= JUDGE.high
    official = read_official(reply)
    assert official is None or isinstance(official, int)
