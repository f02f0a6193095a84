"""A fixed set of 1,000 replies in many forms, about questions of any benchmark's shape.

Reply i has the same form for every benchmark; its letter and its texts are those of the benchmark's own
question i.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COUNT = 1000
SEED = 25
_LETTERS = "ABCDEFGHIJ"
_PHRASES = (
    *("a man opens the door", "two dogs run along a beach", "because it rains", "three", "red and blue"),
    *("the chef adds salt", "C major", "an orange bag", "nobody", "a Bus stops", "to catch a train"),
    *("she waves twice", "Mount Everest", "in the kitchen", "before the speech", "a cup of tea. It is hot"),
    *("the second goal", "Because of the storm", "42", "by bicycle", "no reason is given", "an old map"),
    *("after lunch", "he reads the letter B", "on the left", "green", "the camera shakes", "four people"),
    *("A dance", "the Daily News", "a surprise party", "it falls down", "in 1995", "on a roof", "jumping"),
)


@dataclass(frozen=True)
class Asked:
    """A question with its gold letter, and one reply to it."""

    number: int
    text: str
    choices: tuple[str, ...]
    gold: str
    reply: str
    group: int
    """A number that spreads the questions over a benchmark's groups."""


@dataclass(frozen=True)
class Words:
    """What a form fills in: a letter with its text, another one, and all options."""

    letter: str
    text: str
    other: str
    other_text: str
    options: str


Form = Callable[[Words], str]


def filled(template: str) -> Form:
    """A form with slots for what `Words` has, and for the small letter."""
    return lambda words: template.format(**vars(words), small=words.letter.lower())


_BARE = (
    *("{letter}", "{letter}.", "{letter})", "({letter})", " {letter}", "{letter} ", "{letter}\n"),
    *("{letter}:", "{small}", "({small})", "[{letter}]", "**{letter}**", "{letter},", "( {letter} )"),
    *(") {letter}", ")", "(({letter}))", "{letter}){text}", "\\boxed{{{letter}}}", "'{letter}'"),
    *('"{letter}"', "Option {letter}"),
)
_WITH_TEXT = (
    *("{letter}. {text}", "{letter}. {text}.", "{letter}) {text}", "({letter}) {text}"),
    *("{letter}: {text}", "{text}", "{text}.", "{letter} {text}"),
    *("({letter}) {text}. ({other}) {other_text}", "{letter}\n{text}"),
    "{letter}\n\nBecause the video shows {text} near the end of the scene.",
)
_SENTENCES = (
    *("Answer: {letter}", "Option: {letter}", "Best option: {letter}", "Best answer: {letter}"),
    *("The answer is {letter}", "The answer is {letter}.", "The answer is ({letter}) {text}."),
    *("The best answer is {letter}", "The best answer is: {letter}. {text}"),
    *("The correct answer is {letter}.", "The correct answer is: {letter}"),
    *("The best option is {letter}.", "The correct option is {letter}) {text}"),
    *("The correct option is: ({letter})", "The correct answer: {letter}", "Final answer: {letter}"),
    *("Based on the video, the answer is {letter}.", "A man is running, so the answer is ({letter})."),
    "The answer is {letter}. A man in red walks past the camera and then leaves.",
    *("I think {letter}", "I think it is {letter} because of {text}.", "A person is cooking"),
    "It seems that {text} is what happens in this part of the clip",
    "the person who wears the hat shows us that {text} is right here",
    *("we see nothing of this kind anywhere in this long clip, sorry about that", "I cannot tell."),
    *("I am not sure", "None of the above", "Yes", "No", "", "...", "3", "答案是{letter}。"),
    "Looking at all frames one after the other, {text} fits best. Therefore: {letter}",
)
_SEVERAL = (
    *("{letter} or {other}", "{letter} and {other}", "({letter}) or ({other})", "{letter}, {other}"),
    *("Not {other}, but {letter}.", "{other}. No, wait: {letter}"),
    *("<think>It may be {other}</think>{letter}", "{options}\nThe answer is {letter}"),
    "{other} is wrong, since {other_text} is not seen. So {letter} is right.",
    "It could be ({other}), but I choose ({letter}).",
)
_JSON = (
    *('```json\n{{"result": "{letter}"}}\n```', '```json\n{{"result": {letter}}}\n```'),
    *('```json\n{{"result": "{letter}. {text}"}}\n```', '```json\n{{"result": ["{letter}"]}}\n```'),
    *('```json\n{{"result": 1}}\n```', '```json\n{{"result": null}}\n```'),
    *('```json\n{{"answer": "{letter}"}}\n```', "```json\n{{broken\n``` It is {letter}."),
    "```json\n```\n{letter}",
    '```json\n{{"result": "{other}"}}\n```\n```json\n{{"result": "{letter}"}}\n```',
    *('```json\n{{"result": "{letter}"}}', '{{"result": "{letter}"}}'),
    'Here it is:\n```json\n{{"result": "{letter}"}}\n``` The clue is that {text}.',
)
FORMS: tuple[Form, ...] = tuple(map(filled, (*_BARE, *_WITH_TEXT, *_SENTENCES, *_SEVERAL, *_JSON)))


def asked(
    options: Callable[[random.Random], int],
    *,
    count: int = COUNT,
    seed: int = SEED,
    phrases: Sequence[str] = _PHRASES,
    forms: Sequence[Form] = FORMS,
) -> list[Asked]:
    """The questions and replies; `options` says how many options a question has, which are of the `phrases`.

    Half of the replies name the gold letter, some a letter that is no option.
    """
    rng = random.Random(seed)
    made = []
    for number in range(count):
        choices = tuple(rng.sample(phrases, options(rng)))
        letters = _LETTERS[: len(choices)]
        gold = rng.choice(letters)
        draw = rng.random()
        letter = gold if draw < 0.5 else rng.choice(letters)
        other = rng.choice([own for own in letters if own != letter])
        words = Words(
            letter=_LETTERS[len(choices)] if draw > 0.97 else letter,
            text=choices[letters.index(letter)],
            other=other,
            other_text=choices[letters.index(other)],
            options="\n".join(f"{own}. {text}" for own, text in zip(letters, choices, strict=True)),
        )
        form = forms[number % len(forms)]
        made.append(
            Asked(number, f"What happens in part {number}?", choices, gold, form(words), rng.randrange(10**6))
        )
    return made


# What a judge of open answers replies. Left out: what makes the official script end in an error ("0x2").
GRADES = (
    *("3", "2", "1", "0", " 2\n", "3 ", "-1", "+2", "5", "2.0", "02", "00", "3.", "3/3", "2, as asked"),
    *("Two", "Rating: 2", "The score is 1.", "", "Failed to obtain answer via API."),
    "3\n\nThe answer is right.",
)


# What a judge of CG-Bench's open questions replies: to the question, and when it has seen the clue.
FIRST_GRADES = (
    *(f'```json\n{{"result": {value}}}\n```' for value in ("0", "1", "2", '"1"', "3", "null", "true", "1.0")),
    *("1", "0", "2", "It is 1.", "Output 2, as the texts differ", "wrong", "", "[0]", '{"result": 1}'),
    "```json\nbroken 1\n```",
)
LOOK_GRADES = (
    *(f'```json\n{{"result": {value}}}\n```' for value in ("0", "1", "2", '"1"')),
    *("1", "0", "2", "yes", "I see 1 of them", ""),
)


def judge_replies(rng: random.Random, count: int = COUNT) -> list[tuple[str, str]]:
    """For each open question, the judge's first reply, and the second one if it is asked again."""
    return [(rng.choice(FIRST_GRADES), rng.choice(LOOK_GRADES)) for _ in range(count)]


def grade_replies(rng: random.Random, count: int = COUNT) -> list[str | None]:
    """Replies of a judge; None: the question has no answer."""
    return [None if rng.random() < 0.05 else rng.choice(GRADES) for _ in range(count)]
