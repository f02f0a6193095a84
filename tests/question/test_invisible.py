"""Letters with characters around them that no reader sees, and options that are equal."""

import unicodedata

import pytest

from videopro.question import Question, extract_letter, letter_confidence, right_letters, visible

COLOURS = Question("Which colour is the car?", ("red", "green", "blue", "grey"))
NAMES = (
    *("ZERO WIDTH SPACE", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK", "RIGHT-TO-LEFT OVERRIDE"),
    *("WORD JOINER", "ZERO WIDTH NO-BREAK SPACE", "SOFT HYPHEN", "COMBINING GRAPHEME JOINER"),
    *("VARIATION SELECTOR-16", "HANGUL FILLER", "TAG SPACE", "NULL", "NO-BREAK SPACE"),
    "BRAILLE PATTERN BLANK",
)
UNSEEN = {name: unicodedata.lookup(name) for name in NAMES}


@pytest.mark.parametrize(
    "form",
    [
        "{}B",
        "B{}",
        "({}B{})",
        "{}{}b{}{}",
        "The answer is {}B{}.",
        "<answer>{}B</answer>",
        "\\boxed{{{}B}}",
        '{{"answer": "{}B{}"}}',
        "{}green{}",
    ],
)
def test_what_no_reader_sees_hides_no_letter(form: str) -> None:
    replies = {name: form.format(*[mark] * form.count("{}")) for name, mark in UNSEEN.items()}
    assert [name for name, reply in replies.items() if extract_letter(reply, COLOURS) != "B"] == []


def test_a_word_with_a_soft_hyphen_is_that_word() -> None:
    assert extract_letter("The an\u00adswer is gr\u200been", COLOURS) == "B"
    hidden = Question("Which?", ("r\u200bed", "gre\u00aden"))
    assert extract_letter("It is green.", Question("Which colour is it?", hidden.choices)) == "B"
    assert letter_confidence(["The answer is", " \u200fB", "."], [-1.0, -0.5, -2.0], "B", COLOURS) == (
        pytest.approx(0.60653066)
    )
    assert visible("\u200f(B)\u200b\u00a0!") == "(B) !"


def test_options_that_are_equal_are_right_together() -> None:
    assert right_letters("C", ("red", "blue", "blue", "grey")) == {"B", "C"}


def test_options_that_only_look_alike_are_different() -> None:
    """Their scores may differ, so a text that fits both chooses none."""
    assert extract_letter("blue", Question("Which colour is the car?", ("red", "Blue", "blue"))) is None
