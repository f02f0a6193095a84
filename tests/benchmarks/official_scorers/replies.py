"""A fixed set of 1,000 replies in many forms, about questions of any benchmark's shape.

Reply i has the same form for every benchmark; its letter and its texts are those of the benchmark's own
question i.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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


# ---- yes or no, and which of two captions fits (TempCompass) ----------------------------------------------

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


# ---- intervals as JSON and sentences (CG-Bench), and times (Charades-STA) ---------------------------------


def interval_replies(rng: random.Random, count: int = COUNT) -> list[tuple[str, list[list[float]]]]:
    """Replies that name intervals (CG-Bench), each with the clue of its question."""
    made = []
    for number in range(count):
        clue = _intervals(rng, rng.randint(1, 3))
        named = _near(rng, clue) if rng.random() < 0.7 else _intervals(rng, rng.randint(1, 4))
        made.append((_INTERVAL_FORMS[number % len(_INTERVAL_FORMS)](named), clue))
    return made


def _intervals(rng: random.Random, count: int) -> list[list[float]]:
    starts = [round(rng.uniform(0, 900), 1) for _ in range(count)]
    return [[start, round(start + rng.uniform(1, 40), 1)] for start in starts]


def _near(rng: random.Random, clue: Sequence[Sequence[float]]) -> list[list[float]]:
    moved = [[max(0.0, round(end + rng.uniform(-8, 8), 1)) for end in interval] for interval in clue]
    # Sometimes the clue itself, and a reversed or touching interval as it comes.
    return [list(interval) for interval in clue] if rng.random() < 0.2 else moved


_INTERVAL_FORMS: tuple[Callable[[list[list[float]]], str], ...] = (
    lambda own: f'```json\n{{"result": {own}}}\n```',
    lambda own: f'```json\n{{"result": {own}}}\n```\nThe clue is there.',
    lambda own: f'```json\n{{"result": {own[0]}}}\n```',
    lambda own: '```json\n{"result": []}\n```',
    lambda own: f'{{"result": {own}}}',
    lambda own: " and ".join(f"from {start} to {end} s" for start, end in own),
    lambda own: " and ".join(f"{start} - {end}" for start, end in own),
    lambda own: f"The clue begins at {own[0][0]} s.",
    lambda own: f'```json\n{{"result": "{own}"}}\n```',
    lambda own: f'```json\n{{"result": [{{"start": {own[0][0]}, "end": {own[0][1]}}}]}}\n```',
    lambda own: "I cannot tell.",
    lambda own: "",
    lambda own: f'```json\n{{"result": {[[int(start), int(end)] for start, end in own]}}}\n```',
    lambda own: f'```json\n{{"result": {own * 3}}}\n```',
    lambda own: f"```json\n{{broken {own}\n```",
)


def time_replies(rng: random.Random, count: int = COUNT) -> list[tuple[str, tuple[float, float]]]:
    """Replies that say when an event of a short video happens (Charades-STA), each with the annotated times.

    Three in four are about the annotated times, some of them reversed, and the others anywhere in the video.
    """
    made = []
    for number in range(count):
        start = round(rng.uniform(0, 60), 1)
        times = (start, round(start + rng.uniform(1, 20), 1))
        draw = rng.random()
        away = rng.uniform(0, 80) - start if draw > 0.75 else 0.0
        named = [max(0.0, round(time + away + rng.uniform(-3, 3), 1)) for time in times]
        own = _Times(*(reversed(named) if draw < 0.05 else named), *(round(time + 31.5, 1) for time in named))
        made.append((_TIME_FORMS[number % len(_TIME_FORMS)].format(**own.slots()), times))
    return made


@dataclass(frozen=True)
class _Times:
    """The times (s) of a reply, and of another event in it."""

    start: float
    end: float
    later: float
    last: float

    def slots(self) -> dict[str, object]:
        """The times as numbers (`start`), without digits (`start_s`), and as clocks, long and short."""
        own = vars(self)
        return {
            **own,
            **{f"{name}_s": int(time) for name, time in own.items()},
            **{f"{name}_clock": f"{int(time) // 60}:{int(time) % 60:02}" for name, time in own.items()},
            **{f"{name}_long": f"00:{int(time) // 60:02}:{int(time) % 60:02}" for name, time in own.items()},
        }


_TIME_FORMS = (
    "{start} - {end}", "{start}-{end}", "{start} – {end}", "{start} to {end}", "{start}to{end}",
    "{start_s}-{end_s}", "{start} — {end}", "{start} ~ {end}", "[{start}, {end}]", "({start}, {end})",
    "{start}, {end}", "{start} {end}", "{start}s - {end}s", "{start} s - {end} s", "{start_s}s - {end_s}s",
    "{start_s}-{end_s}s", "{start_s}s to {end_s}s.", "{start} seconds to {end} seconds",
    "{start} seconds - {end} seconds", "{start_s} seconds – {end_s} seconds", "From {start} to {end}.",
    "from {start_s} seconds to {end_s} seconds.", "Between {start} and {end} seconds.",
    "The event happens in the {start} - {end} seconds.", "The event happens in the {start}s - {end}s.",
    "The event 'person turns on 2 lights' happens in the {start} - {end} seonds.",
    "The event happens in the start time - end time. {start} - {end}",
    "A specific example is : 20.8 - 30.0 seconds. The event happens in {start} - {end} seconds.",
    "The event starts at {start} and ends at {end}.",
    "The event starts at {start_s} seconds and ends at {end_s} seconds.",
    "The event starts at {start} seconds.\nIt ends at {end} seconds.",
    "It starts at {start}s! It ends at {end}s!", "Start time: {start}\nEnd time: {end}",
    "Start time: {start} seconds\nEnd time: {end} seconds\n", "start time: {start_s}s, end time: {end_s}s",
    "**Start time:** {start_s}s\n**End time:** {end_s}s", '{{"start": {start}, "end": {end}}}',
    '```json\n{{\n  "start": {start},\n  "end": {end}\n}}\n```', "ends at {end} and starts at {start}",
    "The end time is {end}.\nThe start time is {start}.", "{start_clock} - {end_clock}",
    "{start_clock}-{end_clock}", "{start_clock} to {end_clock}", "{start_long} - {end_long}",
    "It happens from {start_clock} to {end_clock}, near the window.",
    "Start: {start_clock}\nEnd: {end_clock}", "It starts at {start_long} and ends at {end_long}.",
    "{start_clock} and {end_clock}", "At {start_clock}.", "{start_clock} - {end}", "From 1:02:03 to 1:02:10",
    "{start} - {end} and {later} - {last}",
    "First {later_s} - {last_s}.\nThe event happens at {start} - {end}.",
    "The clip shows 2 people.\nThey start at {start}.\nThey end at {end}.",
    "There are 3 scenes.\n{start} - {end}", "In 1995 a man starts a car at {start} - {end} s",
    "<think>{later} - {last}, or not?</think>\n{start} - {end}",
    "The event does not happen before {start}.\nIt is over at {end}.", "It happens tomorrow, 3 - 4 hours on",
    "at {start}", "{start}", "about {start} seconds", "The event starts at {start} seconds.",
    "after {start_s}s", "{start} - {start}", "0 - 0", "0.0 - 0.0 seconds", "-{start} - {end}",
    "{start}.{end}", ".5 - {end}", "1e1 - 2e1", "１２ - １５", "{start_s}:5 - {end_s}:7",
    "00:{start_s}:{end_s}",
    "frame 10 to frame 200", "1,000 - 2,000", "", "I cannot tell.", "The event never happens.",
    "It starts soon and ends late.", "...", "</s>", "No event - none", "The whole video",
)  # fmt: skip
