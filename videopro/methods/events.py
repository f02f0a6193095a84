"""What happens while a question is answered as JSON objects, one an event, for programs that watch.

    observer = EventObserver(emit)        # {"type": "reply", ...}, {"type": "call", ...}, ...
    ...
    for piece in evidence(result): emit({"type": "evidence", **piece})
    emit(last_event(result, question))    # {"type": "answer", ...}, or {"type": "error", ...}

docs/reference/commands.md (JSON lines) describes each type for users.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from videopro.errors import check_cancelled
from videopro.executor import planning_text
from videopro.question import Question
from videopro.traces import (
    FALLBACK,
    WITHHELD,
    Call,
    Cost,
    Execution,
    Failure,
    FrameRef,
    Result,
    Round,
    Step,
    box_of,
    is_withheld,
    shown_confidence,
)


def _shown(frames: Sequence[FrameRef]) -> list[dict[str, Any]]:
    """Frames as a page shows them: the time in s, and the box in 0..1 of a crop."""
    return [{"time": round(frame[0], 3), "box": box_of(frame)} for frame in frames]


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
    withheld = is_withheld(result)
    letter = None if final is None or withheld else final.letter
    return {
        "type": "answer",
        "letter": letter,
        "choice": question.choice(letter) if letter in question.letters else None,
        "text": WITHHELD if withheld else "" if final is None else final.raw,
        "confidence": shown_confidence(result, is_open=question.is_open),
        "probabilities": {} if final is None else dict(final.letters),
        "is_fallback": selected is not None and result.rounds[selected].prompt_kind == FALLBACK,
        "withheld": withheld,
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
