"""A program's calls made again from memory, one of them with another result: no model is asked, and no frame
is decoded. It shows which of its calls decided a program's letter (`videopro.methods.program.deciding`).

    what the call returned          what it could have returned
    yes or no                       the other one
    the letter of an option         each other letter
    a count                         each other number that it chose among, the closest first
    words, read text, hints         the text with its numbers raised by one, the text of each option, no text
    boxes, tracks                   none, one fewer, one more, boxes mirrored; of none, one
    clips                           clips at the beginning, and at the end, of what was searched
    subtitle lines                  the first and the last lines there, the same times with each option's text
    of a search that found nothing  clips or lines, as above
    of modules of your own:
    True or False, a number         the other one; one more, one less
    text, a list                    as above; the list without its last value, and an empty one

A reply of a model keeps its confidence and exchanges two of its probabilities: a program that looks at
confidences alone must not be able to tell a replay from a run. The texts are those of the question's options
for the same reason, and because a text that a program reads is mostly compared with them. A search never
turns up empty here: it would raise NotFoundError, and a program that makes searches for show would seem to
depend on them.
"""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from videopro.modules.calls import (
    AnswerHandle,
    BoxHandle,
    CallContext,
    ClipHandle,
    FrameHandle,
    LineHandle,
    Module,
    TrackHandle,
    VideoContext,
)
from videopro.modules.errors import ModuleError, NotFoundError
from videopro.modules.library import CachedResult, MadeCall, ModuleLibrary, call_key
from videopro.modules.search import CLIP_SECONDS
from videopro.question import LETTERS, Answer, Question


class NeverMade(Exception):
    """A call that the program never made, of a module whose kind of result is not known."""


class ReplayLibrary(ModuleLibrary):
    """The modules of a program's run, for replays of it. A call gives what it gave in the run, or what
    `changed` has for it.

    A call that the run never made, with a program on another path, gives what the module gave at the same
    place in the order of its calls: a change shows by what it does to the program itself, while what a later
    call makes of it is that call's own doing, and in its confidence. Beyond these calls it gives one of the
    values that the module can return, chosen by `guess`, and `is_guessed` is set: with another guess the
    program may end otherwise. Raises NeverMade where no value is known.

    Modules that are not cached look at nothing: they are run.
    """

    def __init__(
        self, run: ModuleLibrary, question: Question, changed: Mapping[Hashable, Any], guess: int = 0
    ) -> None:
        super().__init__(run.context, question=question)
        self.is_guessed = False
        self.repeated: list[Hashable] = []
        """The keys of the calls of cached modules so far."""
        self._recorded_calls = run.made
        self._changed = changed
        self._guess = guess
        self._texts: Sequence[str] = question.choices
        self._order: dict[str, dict[Hashable, int]] = {}
        """By module, the keys of its calls so far, each with its place among them."""
        self._modelless = copy.copy(run.context)
        for name in ("backbone", "index", "ocr", "detector", "tracker"):
            setattr(self._modelless, name, None)

    def _result(self, spec: Module, values: Mapping[str, Any]) -> tuple[CachedResult, bool]:
        if not spec.is_cached:
            return CachedResult(self._calculated(spec, values)), False
        key = call_key(spec, values)
        self.repeated.append(key)
        positions = self._order.setdefault(spec.name, {})
        # Equal calls have equal results, also where these are made up.
        position = positions.setdefault(key, len(positions))
        if key in self._changed:
            if isinstance(changed := self._changed[key], ModuleError):
                raise changed
            return CachedResult(changed), True
        recorded = self._recorded_calls.get(key)
        if recorded is None:
            return CachedResult(self._stand_in(spec, values, position)), True
        if recorded.error is not None:
            raise recorded.error
        return CachedResult(recorded.result, confidence=recorded.confidence), True

    def _calculated(self, spec: Module, values: Mapping[str, Any]) -> Any:
        try:
            return spec.function(CallContext(self._modelless), **values)
        except ModuleError:
            raise
        except Exception as error:  # It looks at the video, or asks a model.
            raise NeverMade(spec.name) from error

    def _stand_in(self, spec: Module, values: Mapping[str, Any], position: int) -> Any:
        results = [
            recorded.result
            for recorded in self._recorded_calls.values()
            if recorded.module.name == spec.name and recorded.error is None
        ]
        if position < len(results):
            # A confidence that two calls share would show that this is no run.
            result = results[position]
            return as_sure_as_others(result, values) if isinstance(result, AnswerHandle) else result
        self.is_guessed = True
        possible = first_values(spec, values, self._texts, self.context)
        if not possible:
            raise NeverMade(spec.name)
        return possible[self._guess % len(possible)]


# Beyond this a number in a text is no count, time or price.
_MOST_DIGITS = 6
_UNSURE = 0.5
_MOST_RESULTS = 32
"""The most that a search finds which found nothing."""


def other_results(call: MadeCall, texts: Sequence[str], context: VideoContext) -> list[Any]:
    """What a call of a program's run could have returned instead, the likeliest first; empty if nothing else
    is known of its kind. `texts`: those of the question's options."""
    if call.error is None:
        return alternatives(call.result, call.values, texts, context)
    # A search that found nothing could have found something; other errors are the program's own.
    is_search = isinstance(call.error, NotFoundError) and call.module.family == "retrieval"
    return first_values(call.module, call.values, texts, context) if is_search else []


def emptied(call: MadeCall) -> Any:
    """What a call of a program's run returns if there is nothing to see, hear or find: an answer without a
    letter, "", an empty list, False, 0, or the error of a search that found nothing; None of another kind."""
    match call.result:
        case AnswerHandle(reply=reply):
            return replace(call.result, reply=replace(reply, letter=None, confidence=0.0, letters={}, raw=""))
        case _ if call.module.family == "retrieval":
            return NotFoundError(f"{call.module.name}() found nothing")
        case str() | list() | bool() | int() | float():
            return type(call.result)()
    return None


def alternatives(
    result: Any, values: Mapping[str, Any], texts: Sequence[str], context: VideoContext
) -> list[Any]:
    """What a call with these checked arguments could have returned in place of `result`, the likeliest first;
    empty if nothing else is known of its kind. `texts`: those of the question's options."""
    match result:
        case AnswerHandle():
            return list(_other_answers(result, texts))
        case str():
            return _other_texts(result, texts)
        case bool():
            return [not result]
        case int() | float():
            return [result + 1, result - 1]
        # (intervals, clips), as get_informative_clips gives them.
        case ([*_], [ClipHandle(duration=length), *_] as clips):
            moved = _moved_clips([clip.score for clip in clips], length, values, context)
            return [other for other in moved if _said(other[1]) != _said(clips)]
        case [LineHandle(), *_]:
            others = [*_moved_lines(len(result), context), *_saying(result, texts)]
            return [lines for lines in others if _said(lines) != _said(result)]
        case [BoxHandle(), *_]:
            return [[], *_fewer_and_more(result), [_mirrored(box, values) for box in result]]
        case [TrackHandle(), *_]:
            return [[], *_fewer_and_more(result)]
        # Nothing was detected, or nothing tracked: there could have been one thing.
        case [] if "frame" in values:
            return [[_some_box(values)]]
        case [] if "frames" in values:
            return [[_some_track(values)]]
        case [_, _, *_]:
            return [result[:-1], []]
        case [_]:
            return [[]]
    return []


def first_values(
    module: Module, values: Mapping[str, Any], texts: Sequence[str], context: VideoContext
) -> list[Any]:
    """What a built-in module could return of which no result is known, as the program calls it in a replay
    only, or it found nothing: at least two values. Empty for a module of the user's own, whose kind of result
    is not known."""
    choices = tuple(values.get("choices") or ())
    # A search for a thousand clips need not be listed in full.
    found = min(int(values.get("top_k", 1)), _MOST_RESULTS)
    match module.name:
        case "query_yn":
            return _replies("yes_no", ("Yes", "No"), values)
        case "query_native" | "query_mc":
            return _replies(module.name.removeprefix("query_"), LETTERS[: len(choices)], values, choices)
        case "query_count":
            return _replies(
                "count", [str(number) for number in range(int(values.get("most", 9)) + 1)], values
            )
        case "query_frames":
            answers = [AnswerHandle(Answer(None, 0, {}, text), "frames") for text in texts]
            return [as_sure_as_others(answer, values) for answer in answers]
        case "run_ocr" | "get_subtitle_hints":
            return ["", *texts]
        case "detect_object":
            return [[], [_some_box(values)]]
        case "track_object":
            return [[], [_some_track(values)]]
        case "get_informative_clips":
            return _moved_clips([None] * found, CLIP_SECONDS, values, context)
        case "get_informative_subtitles":
            lines = _moved_lines(found, context)
            return [*lines, *_saying(lines[0], texts)]
    return []


# ---- replies ---------------------------------------------------------------------------------------------


def _replies(
    mode: str, letters: Sequence[str], values: Mapping[str, Any], choices: tuple[str, ...] = ()
) -> list[AnswerHandle]:
    """An answer for each letter that a model may choose."""
    shares = dict.fromkeys(letters, 0.0)
    answers = [AnswerHandle(Answer(letter, 0, shares, letter), mode, choices) for letter in letters]
    return [as_sure_as_others(answer, values) for answer in answers]


def as_sure_as_others(answer: AnswerHandle, values: Mapping[str, Any]) -> AnswerHandle:
    """The same answer for a call that was never made, with a confidence that no program can tell from a
    model's: some number from a half to 1, another one for each question."""
    asked = " ".join(value for value in values.values() if isinstance(value, str))
    sure = 0.5 + zlib.crc32(asked.encode("utf-8", "surrogatepass")) / 2**33
    letters = dict.fromkeys(answer.letters, (1 - sure) / max(1, len(answer.letters) - 1))
    if answer.reply.letter is not None:
        letters[answer.reply.letter] = sure
    return replace(answer, reply=replace(answer.reply, confidence=sure, letters=letters))


def _other_answers(answer: AnswerHandle, texts: Sequence[str]) -> Iterator[AnswerHandle]:
    reply = answer.reply
    if answer.mode in ("frames", "words"):
        for text in _other_texts(reply.raw, texts):
            yield replace(answer, reply=replace(reply, raw=text))
        return
    other_letters = [letter for letter in reply.letters if letter != reply.letter]
    if answer.mode == "count" and reply.letter is not None:
        number = int(reply.letter)
        other_letters.sort(key=lambda letter: abs(int(letter) - number))
    for other in other_letters:
        letters = dict(reply.letters)
        if reply.letter is not None:
            letters[other], letters[reply.letter] = letters[reply.letter], letters[other]
        raw = reply.raw.replace(reply.letter, other, 1) if reply.letter is not None else other
        yield replace(answer, reply=replace(reply, letter=other, letters=letters, raw=raw))


# ---- texts ------------------------------------------------------------------------------------------------


def _other_texts(text: str, texts: Sequence[str]) -> list[str]:
    raised = re.sub(rf"\d{{1,{_MOST_DIGITS}}}", lambda number: str(int(number[0]) + 1), text)
    return [other for other in dict.fromkeys((raised, *texts, "")) if other != text]


# ---- lists ------------------------------------------------------------------------------------------------


def _fewer_and_more(result: list[Any]) -> list[list[Any]]:
    return [*([result[:-1]] if len(result) > 1 else []), [*result, result[-1]]]


def _mirrored(box: BoxHandle, values: Mapping[str, Any]) -> BoxHandle:
    frame = values.get("frame")
    width = frame.width if isinstance(frame, FrameHandle) else box.x0 + box.x1
    return replace(box, x0=width - box.x1, x1=width - box.x0)


def _some_box(values: Mapping[str, Any]) -> BoxHandle:
    """A box around the middle of the frame."""
    frame = values["frame"]
    x, y = frame.width / 4, frame.height / 4
    return BoxHandle(x, y, 3 * x, 3 * y, str(values.get("text", "")), _UNSURE)


def _some_track(values: Mapping[str, Any]) -> TrackHandle:
    """Something that rests in the middle of the frames."""
    frames = values["frames"]
    x, y = frames[0].width / 4, frames[0].height / 4
    times = tuple(round(frame.time, 3) for frame in frames)
    boxes = ((x, y, 3 * x, 3 * y),) * len(times)
    return TrackHandle(1, str(values.get("text", "")), _UNSURE, times, boxes)


# ---- searches ---------------------------------------------------------------------------------------------


def _moved_clips(
    scores: Sequence[float | None], length: float, values: Mapping[str, Any], context: VideoContext
) -> list[Any]:
    """Clips with these scores, one after another from the beginning of what was searched, and up to its
    end."""
    first, last, limit = values["video"].start, values["video"].end, values.get("total_duration")
    if limit is not None:
        last = min(last, first + limit)
    length = min(length, (last - first) / len(scores))
    moved = []
    for start in (first, last - length * len(scores)):
        times = [(start + length * number, start + length * (number + 1)) for number in range(len(scores))]
        clips = [context.clip(*span, score) for span, score in zip(times, scores, strict=True)]
        moved.append(([(clip.start, clip.end) for clip in clips], clips))
    return moved


def _moved_lines(count: int, context: VideoContext) -> list[list[LineHandle]]:
    """The first lines of the subtitles, and the last ones."""
    lines = context.subtitles.lines if context.subtitles is not None else ()
    handles = [LineHandle(context.video, line.start, line.end, 0.0, line.text) for line in lines]
    return [handles[:count], handles[-count:]]


def _saying(lines: Sequence[LineHandle], texts: Sequence[str]) -> list[list[LineHandle]]:
    return [[replace(line, subtitles=text) for line in lines] for text in texts]


def _said(clips: Sequence[ClipHandle]) -> list[Any]:
    return [(clip.key, clip.subtitles) for clip in clips]
