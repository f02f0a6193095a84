"""Replies that rank, hedge, deny or judge options: put together from parts, so that the choice is known.

Each form is a sentence with places for the letters; the letters are shuffled by a fixed seed. What a form
says was decided when it was written, and holds for any letters and any marking.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from videopro.question import Question, extract_letter

QUESTION = Question("What does the person do?", ("Opens the door", "Makes a call", "Reads a book", "Leaves"))

# {0} is the choice, {1} to {3} are the others.
RANKED = (
    *(f"{first}{{0}}{end} {second}{{1}}." for first, second, end in product(
        ("Most likely: ", "First choice: ", "Top answer: ", "Best guess: ", "1st choice ",
         "My top pick is "),
        ("Second most likely: ", "Second choice: ", "Runner-up: ", "Alternative: ", "2nd choice ",
         "Next best: "),
        (".", ";", ","),
    )),
    "My ranking: 1. {0}, 2. {1}, 3. {2}, 4. {3}",
    "My ranking:\n1. {0}\n2. {1}\n3. {2}\n4. {3}",
    "Ranking: {0} > {1} > {2} > {3}",
    "{0} > {1} > {2} > {3}",
    "In order of likelihood: {0}, {1}, {2}, {3}",
    "From most to least likely: {0}, {1}, {2}, {3}.",
    "Ranked from least to most likely: {3}, {2}, {1}, {0}",
    "I would rank them {0}, {1}, {2}, {3}.",
    "{0} is most plausible, then {1}, finally {2}",
    "{0} is the most likely, followed by {1}.",
    "The most likely answer is {0}, followed by {1} and {2}.",
    "{0}, with {1} as a close second.",
    "Answer: {0} (most likely), {1} (less likely)",
    "Most likely: {0}\nLess likely: {1}\nLeast likely: {2}, {3}",
    "Least likely: {3}. Most likely: {0}.",
    "Rank 1: {0}\nRank 2: {1}\nRank 3: {2}",
    '{{"answer": "{0}", "confidence": 0.6, "second": "{1}"}}',
    '{{"ranking": ["{0}", "{1}", "{2}"]}}',
    "| Rank | Option |\n|---|---|\n| 1 | {0} |\n| 2 | {1} |\n| 3 | {2} |",
)  # fmt: skip
HEDGED = tuple(
    f"{choice}{link}{other}."
    for choice, (link, others) in product(
        ("Most likely {0}", "Probably {0}", "I think it is {0}", "The answer is {0}", "I lean towards {0}"),
        (
            (
                ", but ",
                ("it could be {1}", "it might also be {1}", "{1} is possible", "{1} can't be ruled out"),
            ),
            (", though ", ("{1} is also possible", "it may be {1}", "{1} cannot be ruled out")),
            ("; ", ("{1} is possible", "{1} can't be ruled out", "possibly {1}")),
            (". ", ("However, {1} is also possible", "Possibly {1}", "It could be {1}")),
        ),
    )
    for other in others
)
JUDGED = (
    *(
        separator.join(f"{{{i}}}{mark}{right if i == 0 else wrong}" for i in order)
        for (right, wrong), mark, separator, order in product(
            (("true", "false"), ("yes", "no"), ("Right", "Wrong"), ("correct", "incorrect"), ("✓", "✗")),
            (": ", " - ", ") ", " = "),
            (", ", ". ", "; ", "\n", "\n- "),
            ((0, 1, 2, 3), (1, 0, 2, 3), (2, 1, 3, 0)),
        )
    ),
    "Correct: {0}. Incorrect: {1}, {2}, {3}.",
    "Incorrect: {1}, {2}, {3}\nCorrect: {0}",
    "Right: {0}; wrong: {1}, {2} and {3}",
    "{1} is wrong. {2} is wrong. {3} is wrong. {0} is right.",
    "Not {1}, not {2}, so {0}",
    "It isn't {1} and it isn't {2}, so it is {0}.",
    "{1}, {2} and {3} are wrong, so {0}.",
    "| Option | Correct? |\n|---|---|\n| {1} | No |\n| {0} | Yes |\n| {2} | No |",
)
GOES_ON = tuple(
    f"{said}\n{blank}{next_question}"
    for said, blank, next_question in product(
        ("{0}", "{0}.", "({0})", "Answer: {0}", "The answer is {0}."),
        ("", "\n"),
        (
            "Question: What colour is the car?\nA. red\nB. blue\nAnswer: {1}",
            "Q: What colour is the car?\nA: red",
            "2. What colour is the car?\nA. red\nB. blue\nAnswer: {1}",
            "What colour is the car?\nA. red\nB. blue\nAnswer: {1}",
            "User: And the car?\nAssistant: {1}",
            "### Question 2:\nWho is it?\n### Answer:\n{1}",
        ),
    )
)
UNDECIDED = (
    "{0} or maybe {1}",
    "{0} or perhaps {1}.",
    "Maybe {0}, maybe {1}.",
    "It could be {0}, but it could also be {1}.",
    "{0} is possible. {1} is possible.",
    "{0} and {1} are equally likely.",
    "{0} is likely and {1} is likely.",
    "The two most likely are {0} and {1}.",
    "Top candidates: {0}, {1}",
    "Second choice: {0}.",
    "Runner-up: {0}.",
    "Least likely: {0}.",
    "Incorrect: {0}, {1}, {2}.",
    "It isn't {0}.",
    "{0}: true, {1}: true, {2}: false",
    "{0}: no\n{1}: no\n{2}: no\n{3}: no",
    "Correct: {0}, {1}. Incorrect: {2}.",
    "Ranking: {0} = {1} > {2}",
    "In order of appearance: {0}, {1}, {2}",
    "First {0}, then {1}.",
)
MARKS = ("{}", "**{}**", "({})", "option {}")


def filled(forms: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each form with three orders of the letters, and with marks around them in turn; and its choice."""
    chance = random.Random(7)
    for form in forms:
        for mark in ("{}", "{}", chance.choice(MARKS) if "\n|" not in form and '"' not in form else "{}"):
            letters = chance.sample(QUESTION.letters, 4)
            yield form.format(*map(mark.format, letters)), letters[0]


@pytest.mark.parametrize(
    "forms", [RANKED, HEDGED, JUDGED, GOES_ON], ids=["ranked", "hedged", "judged", "goes on"]
)
def test_the_choice_is_read_whatever_is_said_of_the_others(forms: tuple[str, ...]) -> None:
    read = [(reply, letter, extract_letter(reply, QUESTION)) for reply, letter in filled(forms)]
    assert [row for row in read if row[2] not in (None, row[1])] == []  # never another letter
    assert [row for row in read if row[2] is None] == []


def test_a_reply_that_decides_for_none_is_not_read() -> None:
    read = [(reply, extract_letter(reply, QUESTION)) for reply, _ in filled(UNDECIDED)]
    assert [row for row in read if row[1] is not None] == []
