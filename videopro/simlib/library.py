"""A library of a row, and what its modules answer: a story's script through a channel of errors.

Modules are pure: an error is drawn from the seed, the story, the operation and its arguments.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from videopro.backbones import Backbone
from videopro.errors import BackboneError
from videopro.modules import ModuleError, VideoContext
from videopro.modules.calls import (
    AnswerHandle,
    ArgumentType,
    CallContext,
    Choices,
    ClipHandle,
    FrameHandle,
    Frames,
    LineHandle,
    Module,
    OptionalText,
    Parameter,
    Seconds,
    Segment,
    SingleFrame,
    Text,
    module_of,
)
from videopro.pocket.drawing import FPS, HEIGHT, WIDTH
from videopro.question import LETTERS, Answer
from videopro.simlib.operations import ARGUMENT_NAMES, LEADS, OPERATIONS
from videopro.simlib.story import Asked, Story
from videopro.video import Video, uniform_times

T = TypeVar("T")

FRAMES = 16
"""Frames of a look at the whole video, as on pocket."""
CLIP_FRAMES = 8
ERRORS: Mapping[str, float] = {
    **dict.fromkeys(("color", "shape", "move"), 0.01),
    "narration": 0.11,
    "topic": 0.21,
    "sign": 0.26,
}
"""What the pocket model gets wrong of each kind when it sees the evidence (its measured rates; narration's
topics as `story`); of the other kinds, which ask for places, nothing."""
UNREAD_SIGN = 0.5
"""The share of signs that a look without their text gets wrong. Chosen, as is the next one."""
LOST = 0.05
"""The share of searches that find another scene or line."""

CONCENTRATION = 2.0
"""How little a confidence varies around the probability that the answer is right: with it the oracle's
answers on val have about the calibration of the pocket model's (ECE), and a somewhat higher AUROC."""
UNINFORMED = 0.8
"""The mean of confidences that say nothing."""


@dataclass(frozen=True)
class Channel:
    """The errors between a script and what modules say of it."""

    seed: int = 0
    scale: float = 1.0
    """A factor on all error rates; 0: none."""
    tells: bool = True
    """Whether a confidence says anything: it is higher where an answer is more likely right."""

    def rng(self, *parts: object) -> np.random.Generator:
        """The generator of a call, equal for equal parts."""
        text = json.dumps([self.seed, *map(str, parts)])
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))

    def error(self, kind: str, *, read: bool = True) -> float:
        """The probability of a wrong answer to a question of a kind whose evidence is seen. `read`: the
        sign's text is known."""
        rate = UNREAD_SIGN if kind == "sign" and not read else ERRORS.get(kind, 0.0)
        # No way to look is worse than a guess among four.
        return min(guess_error(4), rate * self.scale)

    @property
    def lost(self) -> float:
        """The probability that a search finds another scene or line."""
        return min(1.0, LOST * self.scale)

    def reply(
        self, rng: np.random.Generator, asked: Asked | None, choices: Sequence[str], error: float
    ) -> Answer:
        """An answer that is wrong with this probability; a guess if these are not the question's options."""
        gold = asked.question.choices[LETTERS.index(asked.answer)] if asked is not None else ""
        options = list(choices)
        error = error if gold in options else guess_error(len(options))
        is_right = gold in options and rng.random() >= error
        others = [at for at, option in enumerate(options) if option != gold]
        at = options.index(gold) if is_right else int(rng.choice(others))
        # On average as sure as it is right, which depends on what it has seen; a guess is surer (below).
        mean = max(0.02, min(0.98, 1 - error if self.tells else UNINFORMED))
        share = float(rng.beta(CONCENTRATION * mean, CONCENTRATION * (1 - mean)))
        # Nothing is certain: a certain answer would never be refined.
        share = min(0.999, max(share, 1 / len(options) + 0.01))
        letters = dict.fromkeys(LETTERS[: len(options)], (1 - share) / max(1, len(options) - 1))
        letters[LETTERS[at]] = share
        return Answer(LETTERS[at], share, letters, LETTERS[at], 0, 1)


MEASURED = Channel()
"""The errors of the pocket model, with confidences that say something."""


class _Script(Video):
    """A story as modules hold it: a video without a file, of which nothing is decoded."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.path, self.id = Path(f"{story.name}.script"), story.name
        self.duration, self.fps = story.script.duration, float(FPS)
        self.width, self.height, self.rotation = WIDTH, HEIGHT, 0
        self.codec, self.notes, self.nearest_intact = "script", (), 0.0


class _Nobody(Backbone):
    """Stands where modules have a model: the script answers."""

    name, frames = "script", FRAMES

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def identity(self) -> dict[str, object]:
        return {"model": self.name, **vars(self.channel)}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return height, width

    def _refuse(self, *args: Any, **keywords: Any) -> Any:
        raise BackboneError("a script has no pictures and writes nothing; ask it by the modules of a library")

    answer_batch = yes_no_batch = generate_batch = prefix = adapter = _refuse

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Offered:
    """An operation as one library offers it."""

    key: str
    name: str
    wording: tuple[int, int] = (0, 0)
    """The number of the body, and of the lead."""
    arguments: tuple[str, ...] = ()
    """The names of the arguments; (): those of the fixed library."""


@dataclass(frozen=True)
class Library:
    """The modules of a row, in the order in which its reference lists them (by family)."""

    offers: tuple[Offered, ...]
    own: Mapping[str, Module] | None = None
    """Modules of the user's that stand for an operation, by its key: their names and descriptions are
    shown."""

    @classmethod
    def fixed(cls, keys: Sequence[str] = tuple(OPERATIONS)) -> Library:
        """The library in which every operation has its own name and first wording."""
        return cls(tuple(Offered(key, key) for key in keys))

    @property
    def names(self) -> dict[str, str]:
        """The name of each operation that is offered."""
        return {offer.key: offer.name for offer in self.offers}

    def modules(self) -> dict[str, Module]:
        """The modules by name."""
        return {offer.name: self._module(offer) for offer in self.offers}

    def _module(self, offer: Offered) -> Module:
        operation = OPERATIONS[offer.key]
        roles = operation.arguments
        if self.own is not None and offer.key in self.own:
            shown = self.own[offer.key]
            names = tuple(each.name for each in shown.parameters)
            doc, returns = shown.doc, shown.returns
        else:
            body, lead = offer.wording
            doc, returns = f"{LEADS[lead]} {operation.bodies[body]}", operation.returns
            names = offer.arguments or tuple(ARGUMENT_NAMES[role][0] for role in roles)
        run: Callable[..., Any] = _RUN.get(offer.key, _special)

        def call(context: CallContext, /, **values: Any) -> Any:
            given = {role: values[name] for role, name in zip(roles, names, strict=False)}
            return run(_Call(context, offer.key), **given)

        parameters = tuple(Parameter(name, *ROLES[role]) for name, role in zip(names, roles, strict=False))
        return Module(offer.name, call, operation.family, parameters, returns, (), True, doc)


class StoryContext(VideoContext):
    """A story with one library, whose modules ask its script."""

    video: _Script
    backbone: _Nobody

    def __init__(self, story: Story, library: Library, channel: Channel = MEASURED) -> None:
        super().__init__(_Script(story), _Nobody(channel))
        self.library, self._modules = library, library.modules()

    def modules(self, *, is_open: bool) -> dict[str, Module]:
        return self._modules

    def _identity_parts(self, family: str) -> dict[str, object]:
        # One name is another operation in the next library.
        return {**super()._identity_parts(family), "library": self.library.names, **self.backbone.identity()}

    def clip(self, start: float, end: float, score: float | None = None) -> ClipHandle:
        lines = [line.text for line in self.video.story.script.lines if start <= line.start < end]
        return ClipHandle(self.video, start, end, score, "\n".join(lines))

    def frame(self, time: float) -> FrameHandle:
        return FrameHandle(self.video, time)


# ---- what operations do ------------------------------------------------------------------------------------


class _Call:
    """One call of an operation: the story, and the generator of its errors."""

    def __init__(self, call: CallContext, key: str) -> None:
        assert isinstance(call.context, StoryContext)
        self.call, self.context, self.key = call, call.context, key
        self.story, self.channel = call.context.video.story, call.context.backbone.channel

    def rng(self, *arguments: object) -> np.random.Generator:
        return self.channel.rng(self.story.name, self.key, *arguments)

    def maybe_lost(self, rng: np.random.Generator, found: list[T], others: Sequence[T]) -> list[T]:
        """What was found, or, where the search goes wrong, another one."""
        if others and rng.random() < self.channel.lost:
            return [others[int(rng.integers(len(others)))]]
        return found

    def use(self, times: Sequence[float]) -> None:
        """Count frames that are looked at, and record them."""
        self.call.use_frames(len(times))
        self.call.frames_used += len(times)
        self.call.frame_refs += [(round(time, 3), float(HEIGHT), float(WIDTH)) for time in times]


def _clips(call: _Call, video: Any, query: str) -> tuple[list[tuple[float, float]], list[ClipHandle]]:
    """The scenes of the place, or with the sign, that the query names."""
    words, scenes = query.split(), call.story.script.scenes
    found = [s for s in scenes if s.place in words or (s.sign is not None and s.sign.word in words)]
    if not found:
        raise ModuleError(f"no clip found for {query!r}; search for a place or a sign of this video")
    chosen = call.maybe_lost(call.rng(query), found, [scene for scene in scenes if scene not in found])
    clips = [call.context.clip(scene.start, scene.end) for scene in chosen]
    return [(clip.start, clip.end) for clip in clips], clips


def _lines(call: _Call, video: Any, query: str) -> list[LineHandle]:
    """The lines that have all words of the query, else fewer."""
    lines, wanted = call.story.script.lines, set(query.strip(".").split())
    shared = [len(wanted & set(line.text.strip(".").split())) for line in lines]
    if not any(shared):
        raise ModuleError(f"no line found for {query!r}; use words that are said")
    found = [line for line, words in zip(lines, shared, strict=True) if words == max(shared)]
    chosen = call.maybe_lost(call.rng(query), found, [line for line in lines if line not in found])
    return [LineHandle(call.context.video, line.start, line.end, None, line.text) for line in chosen]


def _hints(call: _Call, video: Any, query: str) -> str:
    return "\n".join(line.text for line in _lines(call, video, query))


def _extract(call: _Call, clip: Any) -> list[FrameHandle]:
    return [call.context.frame(time) for time in uniform_times(clip.start, clip.end, CLIP_FRAMES)]


def _trim(call: _Call, video: Any, start: float, end: float) -> list[FrameHandle]:
    start, end = max(0.0, start), min(end, call.story.script.duration)
    if start >= end:
        raise ModuleError(f"no frames from {start:.1f} to {end:.1f} s; give a start before the end")
    return [call.context.frame(time) for time in uniform_times(start, end, CLIP_FRAMES)]


def _ocr(call: _Call, frame: FrameHandle) -> str:
    call.use([frame.time])
    sign = call.story.scene_at(frame.time).sign
    return sign.word if sign is not None else ""


def _native(call: _Call, video: Any, question: str, choices: tuple[str, ...]) -> AnswerHandle:
    times = uniform_times(video.start, video.end, FRAMES)
    return _look(call, times, question, choices, "")


def _mc(
    call: _Call, frames: tuple[FrameHandle, ...], question: str, choices: tuple[str, ...], context: str
) -> AnswerHandle:
    return _look(call, sorted({frame.time for frame in frames}), question, choices, context)


def _look(
    call: _Call, times: Sequence[float], question: str, choices: tuple[str, ...], context: str
) -> AnswerHandle:
    call.use(times)
    asked = call.story.by_text.get(question)
    rng = call.rng(times, question, choices, context)
    is_seen = asked is not None and sees(call.story, asked, times, context)
    if is_seen:
        assert asked is not None
        error = call.channel.error(asked.kind, read=bool(context))
    else:
        error = guess_error(len(choices))
    return AnswerHandle(call.channel.reply(rng, asked, choices, error), "mc", choices)


def _special(call: _Call, video: Any, choices: tuple[str, ...], query: str = "") -> AnswerHandle:
    """The answer to the question of the operation's kind that has this slot; to any other, a guess among
    these options."""
    kind = OPERATIONS[call.key].kind
    asked = next((q for q in call.story.questions if q.kind == kind and q.slot == query), None)
    error = call.channel.error(kind)
    # Which part it looks at is its own business; that is the evidence.
    spans = [(0.0, call.story.script.duration)] if asked is None else asked.evidence
    call.use([time for start, end in spans for time in uniform_times(start, end, CLIP_FRAMES)])
    return AnswerHandle(call.channel.reply(call.rng(query, choices), asked, choices, error), "mc", choices)


def guess_error(options: int) -> float:
    """The probability that a guess is wrong."""
    return 1 - 1 / options


def sees(story: Story, asked: Asked, times: Sequence[float], context: str) -> bool:
    """Whether these frames and this text have the evidence of a question."""
    if asked.said:
        return asked.said in context
    if asked.kind == "main_place":
        # The place with most frames is taken for the main one.
        shown = [story.scene_at(time).place for time in times]
        gold = asked.question.choices[LETTERS.index(asked.answer)]
        return max(dict.fromkeys(shown), key=shown.count, default="") == gold
    hits = [any(start <= time < end for time in times) for start, end in asked.evidence]
    return all(hits) if asked.kind == "count" else any(hits)


_RUN: Mapping[str, Callable[..., Any]] = {
    "get_informative_clips": _clips,
    "get_informative_subtitles": _lines,
    "extract_frames": _extract,
    "trim_frames": _trim,
    "run_ocr": _ocr,
    "query_native": _native,
    "query_mc": _mc,
    "get_subtitle_hints": _hints,
}


def _check_frames(value: Any, scope: Any) -> tuple[FrameHandle, ...]:
    frames = value if isinstance(value, list | tuple) else [value]
    if not frames or not all(isinstance(frame, FrameHandle) for frame in frames):
        raise ValueError("must be frames; take them from a clip")
    return tuple(frames)


def roles(
    call: CallContext,
    video: Segment,
    clip: Segment,
    frame: SingleFrame,
    frames: Frames,
    query: Text,
    question: Text,
    choices: Choices,
    start: Seconds,
    end: Seconds,
    context: OptionalText = "",
) -> None:
    """The roles of arguments."""


TYPES = {each.name: each for each in module_of(roles, family="answering").parameters}
"""The parameter of each role, as a user's module has it."""
ROLES: Mapping[str, tuple[ArgumentType, Any]] = {
    **{name: (each.kind, each.default) for name, each in TYPES.items()},
    # Frames are frames here, and no clip, or no library would need a module for them.
    "frames": (ArgumentType(_check_frames, "frames"), inspect.Parameter.empty),
}
"""The type and the default of each role that an argument of an operation has."""
