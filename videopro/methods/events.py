"""What happens while a question is answered as JSON objects, one an event, for programs that watch; and on
what the answer rests: the parts of the video that the round which gave it found and looked at, with times
that a player can seek to.

    observer = EventObserver(emit)        # {"type": "reply", ...}, {"type": "call", ...}, ...
    ...
    for piece in evidence(result): emit({"type": "evidence", **piece})
    emit(last_event(result, question))    # {"type": "answer", ...}, or {"type": "error", ...}

docs/reference/commands.md (JSON lines) describes each type for users.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from videopro.errors import check_cancelled
from videopro.executor import planning_text
from videopro.question import Question
from videopro.traces import (
    FALLBACK,
    Call,
    Cost,
    Execution,
    Failure,
    FrameRef,
    Result,
    Round,
    Step,
    answer_in,
    boxes_in,
    lines_in,
    shown_confidence,
    text_in,
)
from videopro.video import stretches

# A detector's result where it sees nothing: no evidence of anything.
_SEES_NOTHING = "[]"

EvidenceKind = Literal["frames", "interval", "subtitle", "text", "box"]


def evidence(result: Result, size: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The pieces of evidence of the answer that counts, in the order in which they were come by, each once.
    None for a question without an answer. `size`: width and height of the video; without it what a detector
    saw has no box, as its boxes are in pixels.

    A piece has "kind", "start" and "end" in seconds, "time" of a single frame, "box" in 0..1 of the whole
    picture, "text", "source" and "round"; of frames also their "times". None stands for what a piece lacks.
    """
    if result.selected is None:
        return []
    execution = result.rounds[result.selected].execution
    found: list[tuple[str, dict[str, Any]]] = []
    for index, call in enumerate(execution.calls if execution else (), 1):
        found += [(f"call {index} {call.fn}", piece) for piece in _of_call(call, size)]
    # An agent's steps are counted over its question, and told by identity: two may be equal.
    own = {id(step) for step in execution.steps} if execution else ()
    for index, step in enumerate(result.steps, 1):
        if id(step) in own:
            found += [(f"step {index} {step.kind}", piece) for piece in _of_step(step)]
    pieces: dict[str, dict[str, Any]] = {}
    for source, piece in found:
        # Loops of programs repeat their calls.
        pieces.setdefault(json.dumps(piece), {**piece, "source": source, "round": result.selected})
    return list(pieces.values())


def _shown(frames: Sequence[FrameRef]) -> list[dict[str, Any]]:
    """Frames as a page shows them: the time in s, and the box in 0..1 of a crop."""
    return [{"time": round(frame[0], 3), "box": _box(frame)} for frame in frames]


def _of_call(call: Call, size: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
    lines = lines_in(call.result)
    for line in lines:
        yield _piece("subtitle", line.start, line.end, text=line.text)
    # The record shows the first lines; of the others it has the times.
    named = {(round(line.start, 1), round(line.end, 1)) for line in lines}
    for start, end in call.intervals:
        if (round(start, 1), round(end, 1)) not in named:
            yield _piece("subtitle" if lines else "interval", start, end)
    boxes = boxes_in(call.result)
    if len(call.frames) == 1:
        for box in boxes:
            within = None if size is None else _within(call.frames[0], box.corners, size)
            yield _at(call.frames[0], "box", within, f"{box.label} ({box.score:.2f})")
    read = text_in(call.result)
    if read is not None:
        if read.strip() and len(call.frames) == 1:
            yield _at(call.frames[0], "text", _box(call.frames[0]), read)
        elif read.strip():
            yield _piece("text", None, None, text=read)
    elif call.frames and not boxes and call.result != _SEES_NOTHING:
        answer = answer_in(call.result)
        yield from _frames(call.frames, answer[0] if answer is not None else call.result)


def _of_step(step: Step) -> Iterator[dict[str, Any]]:
    for segment in step.segments:
        text = segment.text or segment.name or None
        yield _piece("interval", segment.start, segment.end, text=text)
    if step.frames:
        yield from _frames(step.frames, step.result or step.raw)


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


def _frames(frames: Sequence[FrameRef], text: str) -> Iterator[dict[str, Any]]:
    """The stretches of frames that were looked at together; the first one has what was made of all."""
    for number, times in enumerate(stretches([round(frame[0], 3) for frame in frames])):
        box, *others = [_box(frame) for frame in frames if round(frame[0], 3) in times]
        time, said = times[0] if len(times) == 1 else None, "" if number else text
        piece = _piece("frames", times[0], times[-1], time=time, box=None if others else box, text=said)
        yield {**piece, "times": times}


def _box(frame: FrameRef) -> list[float] | None:
    """The box of a crop, in 0..1 of the whole picture; None of a whole one."""
    return [round(value, 4) for value in frame[3:7]] if len(frame) >= 7 else None


def _within(frame: FrameRef, corners: Sequence[float], size: tuple[int, int]) -> list[float]:
    """A box in pixels of a frame or a crop of a video of this size, in 0..1 of the whole picture."""
    left, top, right, bottom = _box(frame) or (0.0, 0.0, 1.0, 1.0)
    (x0, y0, x1, y1), (width, height) = corners, size
    placed = (left + x0 / width, top + y0 / height, left + x1 / width, top + y1 / height)
    limits = ((left, right), (top, bottom)) * 2
    return [round(min(max(value, low), high), 4) for value, (low, high) in zip(placed, limits, strict=True)]


class EventObserver:
    """Emits each event of one question. Every event is also a chance to notice that the question was
    cancelled."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        """`emit` is called in the threads that answer, one call at a time."""
        self._receive = emit
        # Reentrant: what receives an event may cause another, and each numbers itself under the lock.
        self._lock = threading.RLock()
        self._round = -1
        self._has_ended = True
        self._calls = self._steps = 0

    def on_wait(self, doing: str) -> None:
        """A long stage without visible progress begins."""
        self.emit({"type": "wait", "doing": doing})

    def on_reply(self, round: Round) -> None:
        """The planner replied; its program has not run yet."""
        with self._lock:
            self._begin_round()
            event: dict[str, Any] = {
                "type": "reply",
                "round": self._round,
                "kind": round.prompt_kind,
                "planning": planning_text(round.raw),
                "program": round.program,
                "faults": list(round.faults),
                "seconds": _seconds(round.planning.seconds),
            }
            # Without a fault, planning and program are all of the reply.
            self.emit({**event, "raw": round.raw} if round.faults else event)

    def on_call(self, call: Call) -> None:
        """A module call returned or failed."""
        with self._lock:
            if self._has_ended:  # The direct answer after programs that gave none: no planner replied.
                self._begin_round()
            self._calls += 1
            self.emit(
                {
                    "type": "call",
                    "round": self._round,
                    "number": self._calls,
                    "name": call.fn,
                    "arguments": dict(call.args),
                    "frames": _shown(call.frames),
                    "intervals": [list(interval) for interval in call.intervals],
                    "seconds": _seconds(call.seconds),
                    **_fields(call, "result", "line", "cached"),
                }
            )

    def on_execution(self, execution: Execution) -> None:
        """The program ended."""
        with self._lock:
            self._has_ended = True
            answer, error = execution.answer, execution.error
            self.emit(
                {
                    "type": "execution",
                    "round": self._round,
                    "status": execution.status,
                    "text": answer.raw,
                    **_fields(answer, "letter", "confidence"),
                    "error": None if error is None else _fields(error, "type", "message", "line"),
                }
            )

    def on_step(self, step: Step) -> None:
        """An agent took a step."""
        with self._lock:
            self._steps += 1
            self.emit(
                {
                    "type": "step",
                    "number": self._steps,
                    "agent_round": step.round,
                    "arguments": dict(step.args),
                    "frames": _shown(step.frames),
                    "segments": [
                        _fields(each, "start", "end", "name", "score", "text") for each in step.segments
                    ],
                    "reply": step.raw if step.parsed is None else dict(step.parsed),
                    "faults": list(step.faults),
                    "seconds": _seconds(step.cost.seconds),
                    **_fields(step, "kind", "model", "result"),
                }
            )

    def _begin_round(self) -> None:
        self._round += 1
        self._calls = 0
        self._has_ended = False

    def emit(self, event: dict[str, Any]) -> None:
        """Emit an event that observers do not get, such as the answer. Raises Cancelled."""
        check_cancelled()
        with self._lock:
            self._receive(event)


def last_event(result: Result, question: Question) -> dict[str, Any]:
    """The last event of a question: the answer that counts and what it cost, or the error in its place."""
    if result.error is not None:
        return error_event(result.error, result.cost)
    final, selected = result.final, result.selected
    letter = None if final is None else final.letter
    return {
        "type": "answer",
        "letter": letter,
        "choice": question.choice(letter) if letter in question.letters else None,
        "text": "" if final is None else final.raw,
        "confidence": shown_confidence(result, is_open=question.is_open),
        "probabilities": {} if final is None else dict(final.letters),
        "is_fallback": selected is not None and result.rounds[selected].prompt_kind == FALLBACK,
        "notes": [*result.notes, *map(str, result.stand_ins)],
        "cost": _cost(result.cost),
        "error": None,
    }


def error_event(failure: Failure, cost: Cost | None = None) -> dict[str, Any]:
    """The last event of a question without an answer; `cost`: what it cost nevertheless."""
    return {"type": "error", "error": _fields(failure, "type", "message"), "cost": _cost(cost or Cost())}


def _cost(cost: Cost) -> dict[str, Any]:
    # A share of what questions have in common may be a part of a frame.
    whole = {name: round(getattr(cost, name)) for name in ("frames", "calls", "tokens_in", "tokens_out")}
    return {"seconds": _seconds(cost.seconds), **whole}


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _seconds(seconds: float) -> float:
    return round(seconds, 3)
