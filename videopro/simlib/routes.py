"""The oracle: every way in which a library can answer a question, with its expected accuracy.

A route is a program whose calls name operations; with the names of a library it is what a faultless planner
writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from videopro.pocket.script import NarrationLine, Scene
from videopro.simlib.library import CLIP_FRAMES, FRAMES, Channel, Library, guess_error, sees
from videopro.simlib.operations import GENERAL, OPERATIONS
from videopro.simlib.story import KINDS, Asked, Story, make_story
from videopro.video import uniform_times

Seen = tuple[list[float], str]
"""Times of frames (s) that a route looks at, and the text that it passes on."""
Found = Scene | NarrationLine

STORIES = 100
"""Stories over which a route's accuracy is expected."""
_HEAD = "</planning>\n<code>\ndef execute_command(video, question):\n    "
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SPANS = ("{extract_frames}(<found>)", "{trim_frames}(video, <found>.start, <found>.end)")


@dataclass(frozen=True)
class Route:
    """A way to answer questions of a kind."""

    body: str
    """The program's lines, with {operation} for names and {slot} for what the question names."""
    seen: Callable[[Story, Sequence[Found]], Seen] | None = None
    """What is looked at, given what a search found; None: a special operation, which looks by itself."""
    search: Callable[[Story, Asked], tuple[list[Found], list[Found]]] | None = None
    """What its search finds, and what it finds where it goes wrong; None: it searches nothing."""

    @property
    def plan(self) -> str:
        """The operations in order of their calls. A planner that names them first decides on one after
        another, and not on a whole program at once."""
        called = dict.fromkeys(name for name in _PLACEHOLDER.findall(self.body) if name != "slot")
        return "Call " + ", then ".join(f"{{{name}}}" for name in called) + "."

    @property
    def template(self) -> str:
        """The whole reply."""
        return f"<planning>\n{self.plan}\n{_HEAD}{self.body}\n</code>"

    @property
    def needs(self) -> frozenset[str]:
        """The keys of its operations."""
        return frozenset(_PLACEHOLDER.findall(self.body)) - {"slot"}

    def reply(self, asked: Asked, library: Library) -> str:
        """The reply of a planner that takes this route."""
        return "".join(self.parts(asked, library))

    def parts(self, asked: Asked, library: Library) -> list[str]:
        """The reply in its parts: text of the template, names and what the question names in turn."""
        words = {**library.names, "slot": asked.slot}
        # Every second part is a placeholder's name.
        return [words[part] if at % 2 else part for at, part in enumerate(_PLACEHOLDER.split(self.template))]

    def accuracy(self, story: Story, asked: Asked, channel: Channel) -> float:
        """The probability of the right answer, exactly: over all that its search may find."""
        if self.seen is None:
            return 1 - channel.error(asked.kind)
        if self.search is None:
            return self._accuracy(story, asked, channel, ())
        found, others = self.search(story, asked)
        right = self._accuracy(story, asked, channel, found)
        if not others or channel.lost == 0:
            return right
        wrong = sum(self._accuracy(story, asked, channel, [other]) for other in others) / len(others)
        return (1 - channel.lost) * right + channel.lost * wrong

    def _accuracy(self, story: Story, asked: Asked, channel: Channel, found: Sequence[Found]) -> float:
        assert self.seen is not None
        times, context = self.seen(story, found)
        if not sees(story, asked, times, context):
            return 1 - guess_error(len(asked.question.choices))
        return 1 - channel.error(asked.kind, read=bool(context))


@dataclass(frozen=True)
class Choice:
    """A route for a question with one library."""

    route: Route
    accuracy: float
    """Expected over stories, 0 to 1."""


def choices(asked: Asked, library: Library, channel: Channel) -> list[Choice]:
    """The routes that a library allows, best first; of equal ones, that which comes first in `ROUTES`."""
    allowed = [
        choice for choice in expected(channel)[asked.kind] if choice.route.needs <= library.names.keys()
    ]
    return sorted(allowed, key=lambda choice: -choice.accuracy)


@cache
def expected(channel: Channel) -> Mapping[str, tuple[Choice, ...]]:
    """The routes of each kind with their accuracy over the first stories of training. Not of one story: what
    a look at it would happen to see, nobody knows who plans."""
    stories = [make_story("train", number) for number in range(STORIES)]
    table = {}
    for kind, routes in ROUTES.items():
        asked = [(story, each) for story in stories for each in story.questions if each.kind == kind]
        means = [sum(route.accuracy(*each, channel) for each in asked) / len(asked) for route in routes]
        # Rounded, so that routes that differ by chance are equal.
        table[kind] = tuple(Choice(*pair) for pair in zip(routes, (round(m, 2) for m in means), strict=True))
    return table


# ---- what routes look at -----------------------------------------------------------------------------------


def _scenes(story: Story, asked: Asked) -> tuple[list[Found], list[Found]]:
    scenes = story.script.scenes
    found = [s for s in scenes if asked.slot in (s.place, s.sign.word if s.sign is not None else "")]
    return [*found], [scene for scene in scenes if scene not in found]


def _lines(story: Story, asked: Asked) -> tuple[list[Found], list[Found]]:
    lines, wanted = story.script.lines, asked.slot.strip(".").split()
    # A slot is a whole line, or a name and a deed, which one line has.
    found = [line for line in lines if set(wanted) <= set(line.text.strip(".").split())]
    return [*found], [line for line in lines if line not in found]


def _first(story: Story, found: Sequence[Found]) -> Seen:
    return list(uniform_times(found[0].start, found[0].end, CLIP_FRAMES)), ""


def _all(story: Story, found: Sequence[Found]) -> Seen:
    return [time for each in found for time in uniform_times(each.start, each.end, CLIP_FRAMES)], ""


def _with_sign(story: Story, found: Sequence[Found]) -> Seen:
    times, _ = _first(story, found)
    sign = story.scene_at(times[0]).sign
    return times, sign.word if sign is not None else ""


def _with_said(story: Story, found: Sequence[Found]) -> Seen:
    """The first scene, and all that is said in it."""
    scene = found[0]
    lines = [line.text for line in story.script.lines if scene.start <= line.start < scene.end]
    return _first(story, found)[0], "\n".join(lines)


def _with_line(story: Story, found: Sequence[Found]) -> Seen:
    line = found[0]
    assert isinstance(line, NarrationLine)
    return _first(story, found)[0], line.text


def _whole(count: int) -> Callable[[Story, Sequence[Found]], Seen]:
    return lambda story, found: (list(uniform_times(0.0, story.script.duration, count)), "")


def _whole_with_hints(story: Story, found: Sequence[Found]) -> Seen:
    return _whole(CLIP_FRAMES)(story, found)[0], _with_line(story, found)[1]


BESIDE = 6.0
"""Seconds before or after a scene, and at the video's ends, that are looked at: scenes are longer."""


def _beside(step: int) -> Callable[[Story, Sequence[Found]], Seen]:
    def seen(story: Story, found: Sequence[Found]) -> Seen:
        scene = found[0]
        start, end = (scene.start - BESIDE, scene.start) if step < 0 else (scene.end, scene.end + BESIDE)
        start, end = max(0.0, start), min(end, story.script.duration)
        # At an end of the video there is nothing beside it: the call fails.
        return (list(uniform_times(start, end, CLIP_FRAMES)) if start < end else []), ""

    return seen


def _edge(*, is_last: bool) -> Callable[[Story, Sequence[Found]], Seen]:
    def seen(story: Story, found: Sequence[Found]) -> Seen:
        end = story.script.duration if is_last else BESIDE
        return list(uniform_times(end - BESIDE, end, CLIP_FRAMES)), ""

    return seen


# ---- the programs ------------------------------------------------------------------------------------------

_CLIPS = 'intervals, clips = {get_informative_clips}(video, "{slot}")\n    '
_LINES = 'lines = {get_informative_subtitles}(video, "{slot}")\n    '
_ASK = "\n    return {query_mc}(frames, question, choices"


def _spans(found: str) -> list[str]:
    """The frames of a clip or line, by either module."""
    return [f"frames = {form.replace('<found>', found)}" for form in _SPANS]


def _routes(kind: str) -> Iterable[Route]:
    special = f"get_{kind}"
    slot = '"{slot}", ' if "query" in OPERATIONS[special].arguments else ""
    yield Route(f"return {{{special}}}(video, {slot}choices)")
    yield Route("return {query_native}(video, question, choices)", _whole(FRAMES))
    if kind in ("color", "shape", "move", "sign_place"):
        for frames in _spans("clips[0]"):
            yield Route(f"{_CLIPS}{frames}{_ASK})", _first, _scenes)
    if kind == "sign":
        for frames in _spans("clips[0]"):
            text = "\n    text = {run_ocr}(frames[0])"
            yield Route(f"{_CLIPS}{frames}{text}{_ASK}, text)", _with_sign, _scenes)
            yield Route(f"{_CLIPS}{frames}{_ASK})", _first, _scenes)
    if kind == "topic":
        for frames in _spans("clips[0]"):
            yield Route(f"{_CLIPS}{frames}{_ASK}, clips[0].subtitles)", _with_said, _scenes)
    if kind in ("before", "after"):
        step, window = (-1, "start - 6, start") if kind == "before" else (1, "end, end + 6")
        frames = f"start, end = intervals[0]\n    frames = {{trim_frames}}(video, {window})"
        yield Route(f"{_CLIPS}{frames}{_ASK})", _beside(step), _scenes)
    if kind == "count":
        frames = "frames = [frame for clip in clips for frame in {extract_frames}(clip)]"
        yield Route(f"{_CLIPS}{frames}{_ASK})", _all, _scenes)
    if kind == "spoken":
        for frames in _spans("lines[0]"):
            yield Route(f"{_LINES}{frames}{_ASK})", _first, _lines)
    if kind == "narration":
        for frames in _spans("lines[0]"):
            yield Route(f"{_LINES}{frames}{_ASK}, lines[0].text)", _with_line, _lines)
        for frames in _spans("video"):
            hints = f'{_ASK}, {{get_subtitle_hints}}(video, "{{slot}}"))'
            yield Route(f"{frames}{hints}", _whole_with_hints, _lines)
    if kind in ("first", "last"):
        window = "0, 6" if kind == "first" else "duration - 6, duration"
        frames = f"frames = {{trim_frames}}(video, {window})"
        yield Route(f"{frames}{_ASK})", _edge(is_last=kind == "last"))
    for frames in _spans("video"):
        yield Route(f"{frames}{_ASK})", _whole(CLIP_FRAMES))


ROUTES = {kind: tuple(_routes(kind)) for kind in KINDS}
"""The routes of each kind of question, that of its special operation first."""
assert all(route.needs <= {*GENERAL, f"get_{kind}"} for kind, routes in ROUTES.items() for route in routes)
