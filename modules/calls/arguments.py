"""The argument types of modules. Checking an argument converts it, or raises an error that says how to fix
the call.

A module annotates its parameters with these types (`query: Text`, `top_k: Count = 3`); the library checks and
converts every argument before the module sees it. The messages are read by planners, which were trained on
them: no library's own would do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

from videopro.modules.calls.handles import AnswerHandle, BoxHandle, ClipHandle, FrameHandle, VideoHandle, show
from videopro.question import LETTERS
from videopro.storage import encodable, is_storable, stored_number
from videopro.video import fps_times

MAX_FRAMES_PER_CALL = 1024
"""Maximum number of frames that one call may request."""
MAX_FRAMES_PER_ARGUMENT = 8192
"""Maximum number of frames that one argument may hold."""
MAX_TEXT = 16_000
"""Maximum characters of a question or a query, or of all options together. What reads them takes time that no
deadline limits: encoders, tokenizers, the model itself."""
MAX_CONTEXT = 32_000
"""Maximum characters of a text to go by (the longest hints have fewer), and of all texts of a call; less for
a model that was made for shorter prompts."""
MAX_COUNT = 10_000
MAX_WORDS = 3_000
"""Maximum number of words that a call may have written."""
_LETTERED = re.compile(r"^\(?([A-Z])[.):]\s+")


@dataclass(frozen=True)
class Scope:
    """What checks need to know about the current video."""

    video: VideoHandle
    frames: int
    """Maximum number of frames in one backbone call."""
    characters: int = MAX_CONTEXT
    """Maximum characters of the texts of one call."""
    text: int = MAX_TEXT
    """Maximum characters of one of them that is not context."""

    def for_texts(self, characters: int) -> Scope:
        """The same, where a call may have so many characters in any case: those of the question itself."""
        return replace(self, characters=max(self.characters, characters), text=max(self.text, characters))


@dataclass(frozen=True)
class ArgumentType:
    """An argument type: `check`, which converts a value or raises ValueError with what is wrong, and, for
    those who write modules, what a program may pass."""

    check: Callable[[Any, Scope], Any]
    accepts: str
    is_read: bool = False
    """Whether a model reads it as text: the characters of all such arguments of a call count together."""
    is_documented: bool = True
    """Whether signatures show it. Hidden ones are accepted, because planners pass them out of habit."""


def _shown(value: Any) -> str:
    # By the names that programs know: they never see the classes of the host.
    kind = getattr(type(value), "__program_kind__", type(value).__name__)
    return f"{show(value, 80)} ({kind})"


def _wrong(value: Any, requirement: str) -> ValueError:
    return ValueError(f"must be {requirement}, not {_shown(value)}")


def _number(value: Any, requirement: str) -> float:
    # `trim_around(video, query_count(...))`: an answer that counts is used as its number.
    if isinstance(value, AnswerHandle) and value.mode == "count" and value.answer:
        value = int(value.answer)
    # True is an int to Python; a program that passes it means something else.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, requirement)
    if not is_storable(value):
        raise ValueError(f"must be {requirement}; {stored_number(value)} is none")
    return float(value)


def _bounded(text: str, most: int, advice: str) -> str:
    """The text, encodable and without outer blanks."""
    text = text.strip()
    if len(text) > most:
        raise ValueError(f"has {len(text):,} characters; give at most {most:,}: {advice}")
    return encodable(text)


def _segment(value: Any, scope: Scope) -> VideoHandle | ClipHandle:
    if not isinstance(value, VideoHandle | ClipHandle):
        raise _wrong(value, "the video that the program was given, or a clip of it")
    # By content: the same file may be open twice.
    if value.video.id != scope.video.video.id:
        raise ValueError("is another video than the one this program is about")
    return value


def _frame(value: Any, scope: Scope) -> FrameHandle:
    if isinstance(value, list | tuple):
        raise ValueError(
            f"must be one frame, not a list of {len(value)}; take one of them, or call once for each frame"
        )
    if not isinstance(value, FrameHandle):
        raise _wrong(value, "a frame, such as extract_frames or trim_frames give")
    return value


def _frames(value: Any, scope: Scope) -> tuple[FrameHandle, ...]:
    if isinstance(value, FrameHandle):
        return (value,)
    if isinstance(value, VideoHandle | ClipHandle):
        # Programs pass a clip where frames are wanted; a frame a second is what extract_frames would give.
        times = fps_times(value.start, value.end, 1.0, scope.frames)
        return tuple(FrameHandle(value.video, time) for time in times)
    if not isinstance(value, list | tuple):
        raise _wrong(value, "a frame or a list of frames")
    frames: list[FrameHandle] = []
    for item in value:
        # Programs write `frames.append(extract_frames(clip))` where they mean `extend`: flatten nested lists.
        if isinstance(item, FrameHandle):
            frames.append(item)
        elif isinstance(item, VideoHandle | ClipHandle | list | tuple):
            frames.extend(_frames(item, scope) if item else ())
        else:
            raise ValueError(f"must hold frames only, not {_shown(item)}")
        if len(frames) > MAX_FRAMES_PER_ARGUMENT:
            raise ValueError(f"holds more than {MAX_FRAMES_PER_ARGUMENT:,} frames; give the ones that matter")
    if not frames:
        raise ValueError(
            "is empty: no frame to look at. Check that the step before found something, or take frames of "
            "the whole video with extract_frames(video)"
        )
    return tuple(frames)


def _text(value: Any, scope: Scope) -> str:
    if isinstance(value, AnswerHandle):
        value = value.answer
    if not isinstance(value, str):
        raise _wrong(value, "a text")
    if not value.strip():
        raise ValueError("is an empty text")
    return _bounded(value, min(scope.text, scope.characters), "ask about one thing, in a few words")


def _optional_text(value: Any, scope: Scope) -> str:
    if isinstance(value, list | tuple):
        # The hints of several lines come as a list.
        value = "\n".join(part for part in (_optional_text(item, scope) for item in value) if part)
    if isinstance(value, AnswerHandle):
        value = value.answer
    if not isinstance(value, str):
        raise _wrong(value, "a text or a list of texts")
    return _bounded(value, scope.characters, "keep the lines that bear on the question")


def _counts(most: int, advice: str) -> Callable[[Any, Scope], int]:
    def check(value: Any, scope: Scope) -> int:
        number = _number(value, "a whole number of at least 1")
        if number > most:
            raise ValueError(f"is {show(value, 40)}; {advice}")
        # 3.0 is accepted: programs divide.
        if number != int(number) or number < 1:
            raise _wrong(value, "a whole number of at least 1")
        return int(number)

    return check


def _real(
    requirement: str, fits: Callable[[float], bool] = lambda number: True
) -> Callable[[Any, Scope], float]:
    def check(value: Any, scope: Scope) -> float:
        number = _number(value, requirement)
        if not fits(number):
            raise _wrong(value, requirement)
        return number

    return check


def _choices(value: Any, scope: Scope) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        raise ValueError("must be a list of texts, not a dict; pass list(choices.values())")
    if not isinstance(value, list | tuple):
        raise _wrong(value, "a list of 2 to 10 texts")
    texts = []
    for text in value:
        # Options that are numbers come as numbers from programs: choices=[2, 3, 4].
        if isinstance(text, int | float) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"must hold texts that are not empty, not {_shown(text)}")
        texts.append(encodable(text.strip()))
    if (size := sum(map(len, texts))) > scope.text:
        raise ValueError(f"has {size:,} characters; give at most {scope.text:,} in all options together")
    if not 2 <= len(texts) <= len(LETTERS):
        # Planners were trained on this text, and few questions have more than 10 options.
        raise ValueError(f"has {len(texts)} options; give 2 to {10 if len(texts) < 2 else len(LETTERS)}")
    # Remove letters that the options already have ("A. ..."): the prompt adds its own.
    lettered = [_LETTERED.match(text) for text in texts]
    if all(m and m[1] == LETTERS[i] and m.end() < len(m.string) for i, m in enumerate(lettered)):
        texts = [_LETTERED.sub("", text) for text in texts]
    return tuple(texts)


def _options_if_any(value: Any, scope: Scope) -> tuple[str, ...]:
    # None and a list of nothing both say that the question has no options.
    return () if value in (None, [], ()) else _choices(value, scope)


def _box(value: Any, scope: Scope) -> tuple[float, float, float, float]:
    if isinstance(value, BoxHandle):
        return value.x0, value.y0, value.x1, value.y1
    # The commonest slip with detect_object, which deserves its own message.
    if isinstance(value, list | tuple) and value and all(isinstance(item, BoxHandle) for item in value):
        raise ValueError("must be one box, not a list of boxes; take one of them, such as boxes[0]")
    if not isinstance(value, list | tuple) or len(value) != 4:
        raise _wrong(value, "a box from detect_object, or four numbers [x0, y0, x1, y1]")
    x0, y0, x1, y1 = (_number(item, "four numbers [x0, y0, x1, y1]") for item in value)
    return x0, y0, x1, y1


Segment: TypeAlias = Annotated[
    VideoHandle | ClipHandle, ArgumentType(_segment, "the whole video, or a clip or line of it")
]
SingleFrame: TypeAlias = Annotated[FrameHandle, ArgumentType(_frame, "one frame, not a list")]
Frames: TypeAlias = Annotated[
    tuple[FrameHandle, ...],
    ArgumentType(
        _frames,
        "a frame, a clip or the video, or a list of these that is not empty and may hold such lists; a clip "
        "is read as one frame a second",
    ),
]
Text: TypeAlias = Annotated[
    str,
    ArgumentType(
        _text,
        f"a text that is not empty, of at most {MAX_TEXT:,} characters; an answer is read as one",
        is_read=True,
    ),
]
OptionalText: TypeAlias = Annotated[
    str,
    ArgumentType(
        _optional_text,
        f"a text that may be empty, of at most {MAX_CONTEXT:,} characters; an answer is read as one, and a "
        "list of texts is joined with newlines",
        is_read=True,
    ),
]
Count: TypeAlias = Annotated[
    int,
    ArgumentType(
        _counts(MAX_COUNT, f"give at most {MAX_COUNT:,}"),
        f"a whole number from 1 to {MAX_COUNT:,}, as 3 or 3.0; a count of query_count is read as one",
    ),
]
WordCount: TypeAlias = Annotated[
    int,
    ArgumentType(
        _counts(MAX_WORDS, f"give at most {MAX_WORDS:,} words"), f"as `Count`, but at most {MAX_WORDS:,}"
    ),
]
FrameCount: TypeAlias = Annotated[
    int,
    ArgumentType(
        _counts(MAX_FRAMES_PER_CALL, f"one call gives at most {MAX_FRAMES_PER_CALL} frames"),
        f"as `Count`, but at most {MAX_FRAMES_PER_CALL:,}",
    ),
]
Seconds: TypeAlias = Annotated[float, ArgumentType(_real("a time in seconds, as a number"), "a number")]
PositiveSeconds: TypeAlias = Annotated[
    float, ArgumentType(_real("a number of seconds above 0", lambda number: number > 0), "a number above 0")
]
UnitInterval: TypeAlias = Annotated[
    float,
    ArgumentType(_real("a number from 0 to 1", lambda number: 0 <= number <= 1), "a number from 0 to 1"),
]
Choices: TypeAlias = Annotated[
    tuple[str, ...],
    ArgumentType(
        _choices,
        f'a list of 2 to {len(LETTERS)} texts or numbers; letters before them, as in "A. red", are removed',
        is_read=True,
    ),
]
OptionalChoices: TypeAlias = Annotated[
    tuple[str, ...], ArgumentType(_options_if_any, "as `Choices`, or None or an empty list", is_read=True)
]
NoChoices: TypeAlias = Annotated[
    tuple[str, ...],
    ArgumentType(
        _options_if_any,
        "as `OptionalChoices`, but not shown to planners: for an open question, a program's `choices` are an "
        "empty list",
        is_read=True,
        is_documented=False,
    ),
]
Box: TypeAlias = Annotated[
    tuple[float, float, float, float],
    ArgumentType(_box, "a box of detect_object, or four numbers [x0, y0, x1, y1]"),
]
AnyValue: TypeAlias = Annotated[Any, ArgumentType(lambda value, scope: value, "anything; it is not checked")]
