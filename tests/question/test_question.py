"""Questions, how official scorers read replies, and replies that are long or nested."""

import time

import pytest

from videopro.errors import QuestionError
from videopro.question import LETTERS, OFFICIAL_EXTRACTORS, Question, extract_letter

PETS = Question("What is shown?", ("Birds", "Cats and Dogs", "A red fish", "Four horses"))


def test_a_question_has_letters_and_lines() -> None:
    assert PETS.letters == ("A", "B", "C", "D")
    assert PETS.lettered_choices() == "A. Birds\nB. Cats and Dogs\nC. A red fish\nD. Four horses"
    assert PETS.choice("C") == "A red fish"
    assert Question("Which?", tuple(map(str, range(26)))).letters == tuple(LETTERS)
    assert Question("q", ["x", "x"]).choices == ("x", "x")  # type: ignore[arg-type]
    assert len({Question("q", ("x", "y")), Question("q", ("x", "y"))}) == 1


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        *(("q", choices) for choices in ((), ("only",), tuple("abcdefghijklmnopqrstuvwxyz-"), "xy")),
        *(("q", ("x", option)) for option in (" ", 3)),
        *((text, ("x", "y")) for text in (" ", None)),
    ],
)
def test_an_invalid_question_is_refused(text: str, choices: tuple[str, ...]) -> None:
    with pytest.raises(QuestionError):
        Question(text, choices)


@pytest.mark.parametrize("letter", ["E", "a", "", "AB", "Z"])
def test_a_letter_that_names_no_option_is_refused(letter: str) -> None:
    with pytest.raises(QuestionError, match="A, B, C, D"):
        PETS.choice(letter)


@pytest.mark.parametrize(
    ("reader", "reply", "read"),
    [
        # What they make of replies that extract_letter reads (replies.txt).
        ("videomme", "Answer: D", "A"),
        ("videomme", "A man is running, so the answer is (B).", "A"),
        ("mlvu", "The correct option is B) Cats and Dogs", None),
        ("videopro", "(B)", None),
        ("mlvu", "(B)", None),
        ("videopro", "The answer is B", None),
        ("videopro", "A person is cooking", "A"),
        ("videopro", "I think C", "I"),
        # What else they do.
        ("videomme", "The best answer is: C. Red", "C"),
        ("videomme", "The correct option is D", "D"),
        ("videomme", "Best option: C", "B"),  # the missing comma: "Best option:" is never cut
        ("videomme", "E", None),  # four options only
        ("videomme", "", None),
        ("mlvu", "B) Cats and Dogs", "B"),
        ("mlvu", " B )", "B"),
        ("mlvu", "B. Cats and Dogs", None),
        ("videopro", "Yes, it is.", "Yes"),
        ("videopro", "  D. Four horses", "D"),
        ("videopro", "Based on the video", None),
    ],
)
def test_official_readers(reader: str, reply: str, read: str | None) -> None:
    """Those that tests/benchmarks/test_official_scores.py does not compare with the official code."""
    assert OFFICIAL_EXTRACTORS[reader](reply, PETS) == read


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("<answer>" * 500, None),
        ("<answer>" * 500 + "B", "B"),
        ("<answer>" * 500 + "B" + "</answer>" * 500, "B"),
        ("<final><answer>" * 10_000 + "C", "C"),
        ("<answer>B</answer>" * 10_000, "B"),
        ("<answer>B</answer>" * 10_000 + "<answer>C</answer>", None),
        ("<answer>A <final>B</final> C</answer>", "B"),
        ("<answer>The box says \\boxed{B}</answer>", "B"),
        ('{"answer": ' + "[" * 5000, None),
        ('{"answer": "B", "why": ' + "[" * 5000 + "]" * 5000 + "}", "B"),
        ('{"answer": ' + "1" * 5000 + "}", None),
        ("答案是B。" * 4000, "B"),
        ("( " * 100_000, None),
        ("{" * 200_000, None),
        ("so the option " * 14_000 + "\nAnswer: B", "B"),
        ("Answer: B\n" * 400_000, None),  # only of models whose thinking is not finished
    ],
)
def test_repeated_and_nested_marks_are_read_without_recursion(reply: str, letter: str | None) -> None:
    start = time.process_time()
    assert extract_letter(reply, PETS) == letter
    assert time.process_time() - start < 5
