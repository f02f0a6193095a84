"""Letters with characters around them that no reader sees, and options that are equal."""

from __future__ import annotations

import pytest

from videopro.question import Question, extract_letter, letter_confidence, right_letters, visible

COLOURS = Question("Which colour is the car?", ("red", "green", "blue", "grey"))
# By their names in the Unicode standard.
UNSEEN = {
    "ZERO WIDTH SPACE": "\u200b",
    "ZERO WIDTH NON-JOINER": "\u200c",
    "ZERO WIDTH JOINER": "\u200d",
    "LEFT-TO-RIGHT MARK": "\u200e",
    "RIGHT-TO-LEFT MARK": "\u200f",
    "ARABIC LETTER MARK": "\u061c",
    "RIGHT-TO-LEFT OVERRIDE": "\u202e",
    "WORD JOINER": "\u2060",
    "FIRST STRONG ISOLATE": "\u2068",
    "ZERO WIDTH NO-BREAK SPACE": "\ufeff",
    "SOFT HYPHEN": "\u00ad",
    "COMBINING GRAPHEME JOINER": "\u034f",
    "VARIATION SELECTOR-16": "\ufe0f",
    "VARIATION SELECTOR-17": "\U000e0100",
    "HANGUL FILLER": "\u3164",
    "TAG SPACE": "\U000e0020",
    "NULL": "\x00",
    "NO-BREAK SPACE": "\u00a0",
    "NARROW NO-BREAK SPACE": "\u202f",
    "BRAILLE PATTERN BLANK": "\u2800",
}


@pytest.mark.parametrize("name", UNSEEN)
@pytest.mark.parametrize(
    "form",
    [
        "{}B",
        "B{}",
        "{}B{}.",
        "({}B{})",
        "{}{}b{}{}",
        "**{}B{}**",
        "B{}.{} green",
        "The answer is {}B{}.",
        "Answer:{}B",
        "<answer>{}B</answer>",
        "\\boxed{{{}B}}",
        '{{"answer": "{}B{}"}}',
        "{}green{}",
    ],
)
def test_what_no_reader_sees_hides_no_letter(form: str, name: str) -> None:
    mark = UNSEEN[name]
    assert extract_letter(form.format(*[mark] * form.count("{}")), COLOURS) == "B"


def test_a_word_with_a_soft_hyphen_is_that_word() -> None:
    assert extract_letter("The an\u00adswer is gr\u200been", COLOURS) == "B"
    hidden = Question("Which?", ("r\u200bed", "gre\u00aden"))
    assert extract_letter("It is green.", Question("Which colour is it?", hidden.choices)) == "B"
    assert letter_confidence(["The answer is", " \u200fB", "."], [-1.0, -0.5, -2.0], "B", COLOURS) == (
        pytest.approx(0.60653066)
    )
    assert visible("\u200f(B)\u200b\u00a0!") == "(B) !"


EQUAL = Question("Which colour is the car?", ("red", "blue", "blue", "grey"))


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        # The text says one of the two, and both are right or wrong together: the first.
        ("blue", "B"),
        ("The answer is blue.", "B"),
        ("The car is blue.", "B"),
        ("<answer>blue</answer>", "B"),
        ("blue - B", "B"),
        # A letter is the option that it names.
        ("C", "C"),
        ("C. blue", "C"),
        ("blue, C", "C"),
        ("The answer is C. The car is blue.", "C"),
        ("<answer>C</answer> <answer>blue</answer>", "C"),
        # Contradictions stay what they are.
        ("A. blue", None),
        ("The answer is A. The car is blue.", "A"),
        ("B, C", None),
        ("red", "A"),
    ],
)
def test_a_text_that_two_options_have(reply: str, letter: str | None) -> None:
    assert extract_letter(reply, EQUAL) == letter
    assert right_letters("C", EQUAL.choices) == {"B", "C"}


def test_options_that_only_look_alike_are_different() -> None:
    """Their scores may differ, so a text that fits both chooses none."""
    assert extract_letter("blue", Question("Which colour is the car?", ("red", "Blue", "blue"))) is None
