"""The token of a reply whose probability is the confidence of its letter. Expected values: by hand."""

import math
import re

import pytest

from videopro.question import Question, letter_confidence
from videopro.question.answer_extraction import letter_token

PETS = Question("Which pet is there?", ("a cat", "a dog", "a horse", "a bird"))


def split(reply: str) -> list[str]:
    """Words, with punctuation as tokens of its own."""
    return re.findall(r"\s*(?:\w+|[^\w\s])", reply)


@pytest.mark.parametrize(
    ("before", "token", "after", "letter"),
    [
        ("", "B", "", "B"),
        ("(", "B", ") a dog", "B"),
        ("The answer is", " B", ". A man has it", "B"),
        # The word A is not the letter.
        ("A man is running, so the answer is (", "A", ")", "A"),
        ("A man is running, so the answer is (", "A", "). A cat is there", "A"),
        # Named before it is chosen, and again afterwards.
        ("Is it B or C? The answer is", " C", ". So C", "C"),
        ('```json\n{"result": "', "D", '"}\n```', "D"),
        ("**", "c", "**", "C"),
        ("答案是", "Ｂ", "。", "B"),
    ],
)
def test_the_token_that_decides(before: str, token: str, after: str, letter: str) -> None:
    tokens = [*split(before), token, *split(after)]
    place = len(split(before))
    assert letter_token(tokens, letter, PETS) == place
    logprobs = [-2.0] * len(tokens)
    logprobs[place] = -0.25
    assert letter_confidence(tokens, logprobs, letter, PETS) == pytest.approx(math.exp(-0.25))


def test_an_options_text_has_the_confidence_of_the_reply() -> None:
    tokens = split("It is a dog")
    assert letter_token(tokens, "B", PETS) is None
    confidence = letter_confidence(tokens, [-1.0, -0.5, -0.25, -0.25], "B", PETS)
    assert confidence == pytest.approx(math.exp(-0.5))
    assert letter_confidence([], [], "B", PETS) == 0.0
    # A sum of rounded log-probabilities may exceed 0.
    assert letter_confidence(["B"], [1e-4], "B", PETS) == 1.0


def test_a_reply_that_repeats_its_letter_for_ever_is_read() -> None:
    assert letter_token(["The", " answer", " is", " B", "."] * 60, "B", PETS) == 3
