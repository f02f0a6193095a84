"""Replies labelled by hand: what the reader misses and reads wrongly stays as low as it was recorded.

The counts are those of docs/results/answer-reader.md; `python -m perf.replies` prints them.
"""

import json
from pathlib import Path

import pytest

from perf import ROOT
from perf.replies import counts, errors, labelled_replies
from videopro.question import extract_letter

HERE = Path(__file__).parent
REPLIES = list(labelled_replies(HERE / "labelled"))


def test_the_set_has_two_halves_and_replies_with_and_without_a_letter() -> None:
    halves = [reply.half for reply in REPLIES]
    assert (halves.count("development"), halves.count("record")) == (708, 690)
    assert sum(reply.letter is None for reply in REPLIES) == 414
    assert len({reply.question for reply in REPLIES}) > 30


def test_a_verdict_in_a_language_that_is_not_read_is_missed_and_never_read_wrongly() -> None:
    replies = [reply for reply in REPLIES if reply.file == "other_languages"]
    assert len({reply.question for reply in replies}) == 4
    assert errors(replies, extract_letter)[1] == []


@pytest.mark.parametrize("file", ["replies.txt", "traps.txt"])
def test_each_reply_is_read_as_it_was_labelled(file: str) -> None:
    missed, wrong = errors(list(labelled_replies(HERE, file)), extract_letter)
    assert missed == []
    assert wrong == []


@pytest.mark.parametrize("reply", ["", "   \n", "Answer: "])
def test_nothing_is_no_letter(reply: str) -> None:
    assert extract_letter(reply, REPLIES[0].question) is None


@pytest.mark.parametrize("half", ["development", "record"])
def test_the_recorded_errors_are_those_of_the_readers(half: str) -> None:
    recorded = json.loads((ROOT / "perf/replies.json").read_text())[half]
    replies = [reply for reply in REPLIES if reply.half == half]
    assert len(replies) == recorded["replies"]
    assert counts(replies) == recorded["readers"]
