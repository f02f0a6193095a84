"""The content of the pages as plain JSON: a short row per question for the list, and everything for its own
page. Texts are not escaped: the pages insert them as text, never as markup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from videopro.benchmarks import JudgeGrade
from videopro.program import planning_text
from videopro.question import NO_OPTION, Answer
from videopro.scoring import counted, is_fallback
from videopro.traces import Call, Cost, Execution, Round, Trace
from videopro.view.listing import lines_of_calls, listing
from videopro.view.pictures import Picture, picture_of, set_name, spread, strip_times
from videopro.view.readings import answer_in, boxes_in, lines_in, part_in

_REFINEMENTS = ("bug_fix", "native_refinement", "program_refinement")
_LONGEST_QUESTION = 300


def page_name(question_id: str) -> str:
    """The name of a question's file: a hash, as ids may contain characters that file names must not."""
    return hashlib.sha256(question_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def state_of(trace: Trace) -> str:
    """How the question ended: "error", "unparsed", "right", "wrong", or "unscored" if the benchmark does not
    publish the correct answer or no option is correct."""
    if trace.error is not None or trace.final is None:
        return "error"
    if trace.gold is None or trace.gold == NO_OPTION:
        return "unscored"
    if trace.final.letter is None:
        return "unparsed"
    return "right" if trace.is_right(trace.final.letter) else "wrong"


def row(trace: Trace) -> dict[str, Any]:
    """The question's row in the list. `marks`: notable events, such as a refinement."""
    own = counted(trace)
    first = own[0] if own else None
    changed = trace.is_right(trace.first.letter if trace.first else None), state_of(trace) == "right"
    marks = {
        "refined": trace.refined > 0,
        "failed": any(
            attempt.execution is not None and attempt.execution.status == "failed" for attempt in own
        ),
        "fallback": is_fallback(trace),
        # By a refinement: a correct fallback does not fix a program.
        "fixed": changed == (False, True) and trace.refined > 0 and not is_fallback(trace),
        "broken": changed == (True, False) and trace.refined > 0,
    }
    return {
        "id": trace.question_id,
        "page": page_name(trace.question_id),
        "question": trace.question[:_LONGEST_QUESTION],
        "video": trace.video.key,
        "state": state_of(trace),
        "letter": trace.final.letter if trace.final else None,
        "gold": trace.gold,
        "confidence": _short(trace.final.confidence) if trace.final else None,
        "mode": first.mode if first is not None else None,
        "marks": [name for name, is_so in marks.items() if is_so],
        "groups": dict(trace.groups),
        "seconds": _short(trace.cost.seconds),
    }


def page(
    trace: Trace, max_frames: int, grade: JudgeGrade | None = None
) -> tuple[dict[str, Any], list[Picture]]:
    """Everything about the question, and the pictures that its page shows: at most `max_frames` per call."""
    strip = [Picture(time) for time in strip_times(trace.video.duration)]
    pictures = list(strip)
    rounds = [_round(trace, place, max_frames, pictures) for place in range(len(trace.rounds))]
    shown = {
        "id": trace.question_id,
        "state": state_of(trace),
        "question": trace.question,
        "choices": list(trace.choices),
        "gold": trace.gold,
        "reference": trace.reference,
        "grade": asdict(grade) if grade is not None else None,
        "groups": dict(trace.groups),
        "video": {
            "path": trace.video.path,
            "key": trace.video.key,
            "duration": trace.video.duration,
            "pictures": set_name(trace.video.path, trace.video.id),
            "strip": [{"time": picture.time, "key": picture.key} for picture in strip],
        },
        "evidence": [[_short(time) for time in span] for span in trace.evidence],
        "first": _answer(trace.first),
        "final": _answer(trace.final),
        "official": trace.official,
        "selected": trace.selected,
        "refined": trace.refined,
        "error": asdict(trace.error) if trace.error is not None else None,
        "notes": list(trace.notes),
        "rounds": rounds,
        "cost": _cost(trace.cost),
        "versions": dict(trace.versions),
    }
    return shown, pictures


def _round(trace: Trace, place: int, max_frames: int, pictures: list[Picture]) -> dict[str, Any]:
    attempt = trace.rounds[place]
    calls = attempt.execution.calls if attempt.execution is not None else ()
    lines = lines_of_calls(attempt.program or "", calls)
    before = _refined_by(trace, place)
    return {
        "kind": attempt.prompt_kind,
        "mode": attempt.mode,
        "planning": planning_text(attempt.raw) if attempt.program else "",
        "raw": attempt.raw,
        "faults": list(attempt.faults),
        "notes": dict(attempt.notes),
        "refines": before,
        "listing": _listing(attempt, None if before is None else trace.rounds[before].program),
        "calls": [
            {**_call(call, max_frames, pictures), "line": line, "by_name": by_name}
            for call, (line, by_name) in zip(calls, lines, strict=True)
        ],
        "execution": _execution(attempt.execution),
        "cost": _cost(attempt.planning),
    }


def _refined_by(trace: Trace, place: int) -> int | None:
    """The index of the round whose program this round refines; None if it refines none."""
    attempt = trace.rounds[place]
    if attempt.prompt_kind not in _REFINEMENTS or not place:
        return None
    before = place - 1 if attempt.refines is None else attempt.refines
    return before if 0 <= before < place and trace.rounds[before].program else None


def _listing(attempt: Round, before: str | None) -> list[dict[str, Any]]:
    if attempt.program is None:
        return []
    modules = (
        frozenset(call.fn for call in attempt.execution.calls)
        if attempt.execution is not None
        else frozenset()
    )
    return [
        {"tokens": line.tokens, "number": line.number, "mark": line.mark}
        for line in listing(attempt.program, before, modules)
    ]


def _call(call: Call, max_frames: int, pictures: list[Picture]) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    for frame in spread(call.frames, max_frames):
        picture = picture_of(frame)
        whole = Picture(picture.time)
        # A crop is also shown within its frame.
        pictures += [picture] if picture.box is None else [picture, whole]
        shown.append({"time": picture.time, "key": picture.key, "box": picture.box, "whole": whole.key})
    cut = part_in(call.result)
    if cut is not None:
        whole = Picture(round(cut[0], 3))
        pictures.append(whole)
        shown.append({"time": whole.time, "key": whole.key, "box": None, "whole": whole.key, "cut": cut[1]})
    answer = answer_in(call.result)
    return {
        "fn": call.fn,
        "args": [
            [name, value if isinstance(value, str) else repr(value)] for name, value in call.args.items()
        ],
        "result": call.result,
        "answer": answer[0] if answer else None,
        "confidence": answer[1] if answer else None,
        "boxes": [asdict(box) for box in boxes_in(call.result)],
        "said": [asdict(line) for line in lines_in(call.result)],
        "frames": shown,
        "looked": len(call.frames),
        "times": sorted({round(frame[0], 2) for frame in call.frames}),
        "intervals": [[_short(time) for time in span] for span in call.intervals],
        "seconds": _short(call.seconds),
        "cached": call.cached,
    }


def _execution(execution: Execution | None) -> dict[str, Any] | None:
    if execution is None:
        return None
    return {
        "status": execution.status,
        "answer": execution.answer.letter,
        "confidence": _short(execution.answer.confidence),
        "claim": execution.claim,
        "letters": _letters(execution.answer.letters),
        "raw": execution.answer.raw,
        "error": asdict(execution.error) if execution.error is not None else None,
        "cost": _cost(execution.cost),
    }


def _answer(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "letter": answer.letter,
        "confidence": _short(answer.confidence),
        "letters": _letters(answer.letters),
        "raw": answer.raw,
    }


def _letters(letters: Mapping[str, float]) -> dict[str, float]:
    return {letter: _short(share) for letter, share in letters.items()}


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "seconds": _short(cost.seconds),
        "stages": {name: _short(seconds) for name, seconds in cost.stages.items()},
        "frames": _short(cost.frames),
        "calls": _short(cost.calls),
        "tokens_in": _short(cost.tokens_in),
        "tokens_out": _short(cost.tokens_out),
    }


def _short(number: float) -> float:
    """Round a number for display, to keep the files of thousands of questions small."""
    return round(number, 4)
