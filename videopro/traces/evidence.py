"""On what the answer that counts rests: the parts of the video that its round found and looked at, with times
that a player can seek to, and which of them the answer cites.

A piece comes from what a call or a step returned, or from the frames that it was shown, so no answer can
cite what was not observed. An answer cites the calls that decided it, what was found at the moments that they
looked at, and what they were given to read. A direct answer cites the frames that it was shown. An agent's
cites the frames that were shown, and the clips that tools found, in the steps on which it rests, if its
method tells, else in all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from videopro.traces.readings import answer_in, boxes_in, lines_in, text_in
from videopro.traces.record import Execution, Result
from videopro.traces.steps import Call, FrameRef, Step

# A detector's result where it sees nothing: no evidence of anything.
_SEES_NOTHING = "[]"
# Quoted text, or the error of a call that failed: no module returned the lines and boxes that it may name.
_WORDS = re.compile(r"['\"]|[A-Za-z_]\w*: ")
_LEAST_TEXT = 3
"""Characters of a text that is found again in what a call was given to read."""
SHOWN_STRETCHES = 6
_APART = 3.0
"""Seconds without a frame that end a stretch."""

EvidenceKind = Literal["frames", "interval", "subtitle", "text", "box"]


def evidence(
    result: Result, size: tuple[int, int] | None = None, *, most: int = SHOWN_STRETCHES
) -> list[dict[str, Any]]:
    """The pieces of evidence of the answer that counts, in the order in which they were found, each once.
    None for a question without an answer. `size`: width and height of the video; without it what a detector
    saw has no box, as its boxes are in pixels. `most`: stretches of the frames of one call.

    A piece has "kind", "start" and "end" in seconds, "time" of a single frame, "box" in 0..1 of the whole
    picture, "text", "source", "round", and whether the answer rests on it, "cited" (never for a reply that
    could not be read); of frames also their "times". None stands for what a piece lacks.
    """
    if result.selected is None or result.error is not None:
        return []
    execution = result.rounds[result.selected].execution or Execution("empty")
    found = [
        (f"call {index + 1} {execution.calls[index].fn}", cited, piece)
        for index, cited, piece in _in_calls(execution, size, most)
    ]
    # An agent's steps are counted over its question, and distinguished by identity: two may be equal.
    steps = {id(step): place for place, step in enumerate(execution.steps)}
    for index, step in enumerate(result.steps, 1):
        if id(step) in steps:
            own = execution.cites is None or steps[id(step)] in execution.cites
            # What a model names, or a range of which it was shown some frames, is not observed.
            is_found = not step.model and not step.frames
            for piece in _of_step(step, most):
                is_observed = piece["kind"] == "frames" or is_found
                found.append((f"step {index} {step.kind}", own and is_observed, piece))
    pieces: dict[str, dict[str, Any]] = {}
    for source, cited, piece in found:
        # Loops of programs repeat their calls.
        first = pieces.setdefault(
            json.dumps(piece), {**piece, "source": source, "round": result.selected, "cited": False}
        )
        first["cited"] |= cited and execution.status == "ok"
    return list(pieces.values())


def cited_calls(execution: Execution) -> list[Call]:
    """The calls on which an answer rests: those that decided it, and those that returned what it cites."""
    indices = {index for index, cited, _ in _in_calls(execution, None, SHOWN_STRETCHES) if cited}
    return [*_citing_calls(execution), *(execution.calls[index] for index in sorted(indices))]


def _in_calls(
    execution: Execution, size: tuple[int, int] | None, most: int
) -> Iterator[tuple[int, bool, dict[str, Any]]]:
    """The pieces of each call, by its index, and whether the answer cites them."""
    citing = _citing_calls(execution)
    moments = [frame[0] for call in citing for frame in call.frames]
    given = [value for call in citing for value in call.args.values() if isinstance(value, str)]
    for index, call in enumerate(execution.calls):
        own = any(call is each for each in citing)
        for piece in _of_call(call, size, most):
            start, end, text = piece["start"], piece["end"], piece["text"] or ""
            is_seen = start is not None and any(start <= moment <= end for moment in moments)
            is_read = len(text) >= _LEAST_TEXT and any(text in value for value in given)
            yield index, own or is_seen or is_read, piece


def _citing_calls(execution: Execution) -> list[Call]:
    """The calls that decided the answer: found by replaying a program that reasoned it, else the last one
    that returned it. A direct answer is one call."""
    calls = execution.calls
    if execution.reasoned is not None:
        return [
            calls[index] for index in sorted({i for each in execution.reasoned.deciding for i in each.calls})
        ]
    if len(calls) == 1 and calls[0].line is None:
        return list(calls)
    answer = execution.answer.letter or execution.answer.raw
    gave = [call for call in calls if call.frames and (read := answer_in(call.result)) and read[0] == answer]
    return gave[-1:]


def _of_call(call: Call, size: tuple[int, int] | None, most: int) -> Iterator[dict[str, Any]]:
    handles = "" if _WORDS.match(call.result) else call.result
    lines = lines_in(handles)
    for line in lines:
        yield _piece("subtitle", line.start, line.end, text=line.text)
    # The record shows the first lines; of the others it has the times.
    named = {(round(line.start, 1), round(line.end, 1)) for line in lines}
    for start, end in call.intervals:
        if (round(start, 1), round(end, 1)) not in named:
            yield _piece("subtitle" if lines else "interval", start, end)
    boxes = boxes_in(handles)
    if len(call.frames) == 1:
        for box in boxes:
            within = None if size is None else _within(call.frames[0], box.corners, size)
            yield _at(call.frames[0], "box", within, f"{box.label} ({box.score:.2f})")
    read = text_in(call.result)
    if read is not None:
        if read.strip() and len(call.frames) == 1:
            yield _at(call.frames[0], "text", box_of(call.frames[0]), read)
        elif read.strip():
            yield _piece("text", None, None, text=read)
    elif call.frames and not boxes and call.result != _SEES_NOTHING:
        answer = answer_in(call.result)
        yield from _frames(call.frames, most, answer[0] if answer is not None else call.result)


def _of_step(step: Step, most: int) -> Iterator[dict[str, Any]]:
    for segment in step.segments:
        text = segment.text or segment.name or None
        yield _piece("interval", segment.start, segment.end, text=text)
    if step.frames:
        yield from _frames(step.frames, most, step.result or step.raw)


def _piece(
    kind: EvidenceKind,
    start: float | None,
    end: float | None,
    *,
    time: float | None = None,
    box: list[float] | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    return {"kind": kind, "start": start, "end": end, "time": time, "box": box, "text": text or None}


def _at(frame: FrameRef, kind: EvidenceKind, box: list[float] | None, text: str) -> dict[str, Any]:
    time = round(frame[0], 3)
    return _piece(kind, time, time, time=time, box=box, text=text)


def _frames(frames: Sequence[FrameRef], most: int, text: str) -> Iterator[dict[str, Any]]:
    """The stretches of frames that were looked at together; the first one has what was made of all."""
    for number, times in enumerate(stretches([round(frame[0], 3) for frame in frames], most)):
        box, *others = [box_of(frame) for frame in frames if round(frame[0], 3) in times]
        time, said = times[0] if len(times) == 1 else None, "" if number else text
        piece = _piece("frames", times[0], times[-1], time=time, box=None if others else box, text=said)
        yield {**piece, "times": times}


def box_of(frame: FrameRef) -> list[float] | None:
    """The box of a crop, in 0..1 of the whole picture; None of a whole one."""
    return [round(value, 4) for value in frame[3:7]] if len(frame) >= 7 else None


def _within(frame: FrameRef, corners: Sequence[float], size: tuple[int, int]) -> list[float]:
    """A box in pixels of a frame or a crop of a video of this size, in 0..1 of the whole picture."""
    left, top, right, bottom = box_of(frame) or (0.0, 0.0, 1.0, 1.0)
    (x0, y0, x1, y1), (width, height) = corners, size
    placed = (left + x0 / width, top + y0 / height, left + x1 / width, top + y1 / height)
    limits = ((left, right), (top, bottom)) * 2
    return [round(min(max(value, low), high), 4) for value, (low, high) in zip(placed, limits, strict=True)]


def stretches(times: Iterable[float], most: int = SHOWN_STRETCHES) -> list[list[float]]:
    """The times (s) of frames that were looked at, in stretches for a player: a gap above three seconds
    ends one. Of more than `most` stretches, as many that are evenly chosen."""
    moments = np.unique(list(times))
    found = [each for each in np.split(moments, np.flatnonzero(np.diff(moments) > _APART) + 1) if each.size]
    most = min(len(found), most)
    return [found[int((part + 0.5) * len(found) / most)].tolist() for part in range(most)]
