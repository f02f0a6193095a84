"""Replies to TempCompass's questions of yes and no, and about which of two captions fits a video."""

from __future__ import annotations

from dataclasses import replace

from tests.benchmarks.official_scorers.replies import COUNT, SEED, Asked, Form, Words, asked, filled

_YES_NO = (
    "{text}", "{text}.", "{text}!", " {text}", "{text}\n", "{text}</s>", "{text}, {other_text}",
    "{text} or {other_text}", "{letter}", "({letter})", "{letter}. {text}", "({letter}) {text}", "**{text}**",
    '"{text}"', "[{text}]", "<{text}>", "Answer: {text}", "The answer is {text}.", "It is: {text}",
    "Not {other_text}, but {text}.", "{text}\n\nThe dog runs.", "{text}, the man moves to the left.",
    "{text}: it rains", "{text}; {text}", "{text}{text}", "{text}-{other_text}", "I think {text}",
    "I would say {text}, as the light turns red.", "<think>{other_text}</think>{text}", "</s>{text}",
    '{{"result": "{text}"}}', "```json\n{{\"result\": \"{text}\"}}\n```", "_{text}_", "Final answer: {text}",
    "Nothing moves.", "None of them", "Not really", "Nobody does", "Now it rains", "North", "Yesterday",
    "Yes-man", "NOT", "YES", "NO", "yEs", "nO", "Y", "N", "N/A", "true", "False", "Correct", "I cannot tell.",
    "", "...", "42", "yea", "nope", "Ｙｅｓ", "是", "oui", "The man says no.", "There is no dog.", "It does.",
    "It does not.",
)  # fmt: skip


def yes_no() -> list[Asked]:
    """Questions whose options are yes and no, in either order; a reply may begin with a capital."""
    small = [filled(template) for template in _YES_NO]
    return asked(lambda rng: 2, phrases=("yes", "no"), forms=[*small, *map(_capital, small)])


def _capital(form: Form) -> Form:
    return lambda words: form(replace(words, text=words.text.capitalize()))


# The name of a caption is {kind} {mark}.
_CAPTION = (
    "{kind} {mark}: {text}", "{kind} {mark}", "{kind} {mark}.", "{kind} {mark}:", "{mark}", "{mark}.",
    "{mark}:", "({mark})", "{text}", "{text}.", " {text}\n", "{text}</s>", "{mark}: {text}", "{mark}. {text}",
    "{mark}) {text}", "({mark}) {text}", "{kind} {mark}. {text}", "{kind} {mark}) {text}",
    "{kind} {mark} is better.", "**{kind} {mark}**", "{kind} {small}", "The answer is {kind} {mark}.",
    "{mark} {text}", "{kind} {mark}: {text}.", "{kind} {mark}:{text}", "{kind}  {mark}",
    "{kind} {mark}\n\nThe man runs.", "{kind} {mark}: {other_text}", "{mark}) {other_text}",
    "{other_mark}) {text}", "{kind} {mark} or {kind} {other_mark}", "({mark}) {text}) {other_text}",
    "I choose ) {text}", "{mark}.)", ".{mark}", "Option {letter}", "Caption {letter}", "Sentence {letter}",
    "Option {mark}.", "Caption {mark}.", "Sentence {mark}.", "Option 1", "Option 2", "A", "B", "1", "2", "C",
    "3", "{letter}. {text}", "{kind}", "neither", "", "I cannot tell.", "{kind} {mark} ", "{kind} {mark}</s>",
    "{kind} {mark}..", "{mark}\n{text}",
)  # fmt: skip
_KINDS = (("Option", "123"), ("Caption", "ABC"), ("Sentence", "ABC"))
_SCENES = (
    "A man is dunking a ball.", "A man is dribbling a ball", "The dog runs to the left.",
    "The dog runs to the right.", "It rains", "The sign says: OPEN", "The light turns from red to green.",
    "The light turns from green to red.", "Option 1 is drawn on the wall.", "She sings, then dances.",
    "She dances, then sings.", "Nobody moves (at all) here.",
)  # fmt: skip


def captions() -> list[Asked]:
    """Questions with two captions as options, each with its name: "Caption A: It rains"."""
    made: list[Asked] = []
    for place, (kind, marks) in enumerate(_KINDS):
        forms = [_caption(template, kind, marks) for template in _CAPTION]
        count = len(range(place, COUNT, len(_KINDS)))
        for own in asked(lambda rng: 2, count=count, seed=SEED + place, phrases=_SCENES, forms=forms):
            named = tuple(f"{kind} {mark}: {text}" for mark, text in zip(marks, own.choices, strict=False))
            made.append(Asked(len(made), own.text, named, own.gold, own.reply, own.group))
    return made


def _caption(template: str, kind: str, marks: str) -> Form:
    def form(words: Words) -> str:
        mark, other = (marks["ABC".index(letter)] for letter in (words.letter, words.other))
        return template.format(**vars(words), kind=kind, mark=mark, other_mark=other, small=mark.lower())

    return form
