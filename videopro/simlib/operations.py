"""The 24 operations that a library may offer: 8 of today's modules, and a special one for each of the 16
kinds of questions; with the words in which a library may describe and name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from videopro.modules import DRAWN_NAMES


@dataclass(frozen=True)
class Operation:
    """What a module does, whatever its name in a library."""

    key: str
    """Its name in the fixed library; of a special operation, after the kind that it answers."""
    family: str
    arguments: tuple[str, ...]
    """The roles of its arguments, in order."""
    bodies: tuple[str, str, str, str]
    """What follows "Tell" in a description; the last is held out from training."""
    returns: str
    kind: str = ""
    """The kind of question that a special operation answers; "" for a general one."""


# NAME, its family, its arguments and what it returns; then four ways to say what it tells.
_GENERAL_TEXT = """
get_informative_clips, retrieval, video query, intervals and clips: the clips that show a thing
    | which clips show a thing | the clips where a thing is seen | in which clips a thing is shown
get_informative_subtitles, retrieval, video query, lines: the lines that say some words
    | which lines say some words | the lines where some words are said | in which lines some words come up
extract_frames, localization, clip, frames: the frames of a clip | which frames a clip has
    | all frames of one clip | the frames in a clip
trim_frames, localization, video start end, frames: the frames from a start to an end
    | which frames are between two times | all frames between a start and an end
    | the frames from one time to another
run_ocr, extraction, frame, text: the text in a frame | which text a frame shows
    | what is written in a frame | the words written in one frame
query_native, answering, video question choices, answer: the answer from one look at the whole video
    | the choice that one look at the video gives | what a look at the whole video answers
    | the choice after one look at all of the video
query_mc, answering, frames question choices context, answer: the answer from some frames
    | the choice that some frames give | what a look at some frames answers
    | the choice after a look at some frames
get_subtitle_hints, context, video query, text: a text of what the narrator says about some words
    | what the narrator says about a query | what all lines say about some words
    | a text of all that is said about a query
"""
# Of a kind whose questions name something, with a star.
_SPECIAL_TEXT = """
weather: the weather | which weather the video shows | how the weather is | what weather it is
main_place: the place of most of the video | which place is shown most of the time
    | where most of it takes place | the place that is shown the most
color*: the color of the thing at a place | which color the thing at a place has | the color at a place
    | what color we see at a place
shape*: the shape of the thing at a place | which shape the thing at a place has | the shape at a place
    | what shape we see at a place
move*: how the thing at a place does move | what the thing at a place does | what it does at a place
    | how something does move at a place
before*: the place right before another | which place comes right before another
    | where the video is before a place | what is shown right before a place
after*: the place right after another | which place comes right after another
    | where the video goes after a place | what is shown right after a place
count*: how many scenes a place has | how many times a place is shown | in how many scenes a place is
    | how many times we see a place
sign*: the word on the sign at a place | what the sign at a place does say
    | which word the sign at a place has | what is on the sign at a place
spoken*: the place on screen when the narrator says a line | which place is on screen while a line is said
    | where the video is when a line is said | what is on screen when the narrator says it
narration*: the thing in what the narrator says of a person | which thing a person has to do with
    | what a person did it to according to the narrator | according to the narrator which thing it was
topic*: the topic that comes up at a place | which topic the narrator has at a place
    | what the narrator does talk about at a place | the topic of the talk at a place
sign_place*: the place that has a sign | where a sign is | at which place a sign is
    | which place we see a sign at
first: the place shown first in the video | where the video does begin | at which place the video does begin
    | which place is shown first
last: the place shown last in the video | where the video does end | at which place the video does end
    | which place is shown last
earliest: which of some places is shown the earliest | which of these is shown before the others
    | the earliest of these places | which of these we see the earliest
"""


def _entries(text: str) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    """The head of each entry, and its four bodies."""
    for line in text.strip().replace("\n    |", " |").split("\n"):
        head, _, rest = line.partition(": ")
        first, second, third, held_out = (body.strip() for body in rest.split("|"))
        yield head, (first, second, third, held_out)


def _operations() -> Iterator[Operation]:
    for head, bodies in _entries(_GENERAL_TEXT):
        key, family, arguments, returns = head.split(", ")
        yield Operation(key, family, tuple(arguments.split()), bodies, returns)
    for head, bodies in _entries(_SPECIAL_TEXT):
        kind = head.rstrip("*")
        arguments = "video query choices" if head.endswith("*") else "video choices"
        yield Operation(f"get_{kind}", "answering", tuple(arguments.split()), bodies, "answer", kind)


OPERATIONS: Mapping[str, Operation] = {operation.key: operation for operation in _operations()}
"""All operations, by key."""
GENERAL = tuple(operation.key for operation in OPERATIONS.values() if not operation.kind)
UNSEEN = ("get_shape", "get_after", "get_narration", "get_sign_place")
"""Special operations that no library in training has."""

LEADS = ("Tell", "Give")
WORDINGS = tuple(product(range(4), range(len(LEADS))))
"""The 8 wordings of a description: a body and a lead."""
HELD_OUT_WORDINGS = ((3, 0), (3, 1))
"""Those that no library in training has: one of the four bodies."""
ARGUMENT_NAMES: Mapping[str, tuple[str, ...]] = {
    "video": ("video", "film", "movie"),
    "query": ("query", "text", "words"),
    "choices": ("choices", "options", "answers"),
    "question": ("question", "asked"),
    "context": ("context", "notes"),
    "frames": ("frames", "pictures"),
    "frame": ("frame", "picture"),
    "clip": ("clip", "part"),
    "start": ("start", "begin"),
    "end": ("end", "stop"),
}
"""Names for each role; the first is that of the fixed library."""
NAMES = DRAWN_NAMES
"""Of training with drawn names, so that what simlib shows is of the same words."""
HELD_OUT_NAMES = tuple(name for at, name in enumerate(NAMES) if (at // 40 * 2 + at % 40) % 5 == 0)
"""A fifth of them, which no library in training has; their two words are in others."""
assert len(NAMES) == 1600
assert len(HELD_OUT_NAMES) == 320
