"""The content of the pages as plain JSON: a short row per question for the list, and everything for its own
page. Texts are not escaped: the pages insert them as text, never as markup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from videopro.benchmarks import LETTERS, NO_OPTION, JudgeGrade
from videopro.executor import planning_text
from videopro.report.pages.listing import lines_of_calls, listing
from videopro.report.pages.steps import TextTable, layout, steps_of, tree_of
from videopro.report.pages.thumbnails import Picture, set_name, shown_frames, strip_times, times_of
from videopro.traces import (
    AGENT,
    REFINEMENT_KINDS,
    THOUGHTS,
    Call,
    Execution,
    Round,
    Trace,
    answer_in,
    boxes_in,
    evidence,
    lines_in,
    part_in,
    shown_confidence,
)
from videopro.traces.scoring import counted, exact_match, is_fallback, token_f1

_NONE_STORED = "the run did not store its prompts"
_NO_HEAD = (
    "its start is missing in the run's prompts.jsonl, which was damaged or not copied with the run; the "
    "question's own part is in the trace as JSON"
)


class StoredPrompts:
    """The prompts of one run. `beginnings` collects their shared beginnings, so that the pages store each
    once."""

    def __init__(self, heads: Mapping[str, str]) -> None:
        """`heads`: the beginnings that the run stored, by key."""
        self._heads = heads
        self._numbers: dict[str, int] = {}

    @property
    def beginnings(self) -> list[str]:
        """The beginnings of the prompts so far, by number."""
        return list(self._numbers)

    def of(self, attempt: Round) -> dict[str, Any]:
        """The prompt of a round for its page: `head` (a number of `beginnings`, or None) and `text` after it,
        or `missing`: why it cannot be shown. Its turns are separated by blank lines."""
        prompt = attempt.prompt
        if prompt is None:
            return {"head": None, "text": "", "missing": _NONE_STORED}
        head = prompt.head or self._heads.get(prompt.key, "")
        if prompt.key and not head:
            return {"head": None, "text": "", "missing": _NO_HEAD}
        before = f"{prompt.system}\n\n" if prompt.system else ""
        after = f"\n\n{prompt.prefill}" if prompt.prefill else ""
        number = self._numbers.setdefault(before + head, len(self._numbers)) if before + head else None
        return {"head": number, "text": prompt.text + after, "missing": ""}


_LONGEST_QUESTION = 300
_LONGEST_ANSWER = 80


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
    counted_rounds = counted(trace)
    first = counted_rounds[0] if counted_rounds else None
    changed = trace.is_right(trace.first.letter if trace.first else None), state_of(trace) == "right"
    marks = {
        "refined": trace.refined > 0,
        "failed": any(
            attempt.prompt_kind != AGENT
            and attempt.execution is not None
            and attempt.execution.status == "failed"
            for attempt in counted_rounds
        ),
        "fallback": is_fallback(trace),
        # By a refinement: a correct fallback does not fix a program.
        "fixed": changed == (False, True) and trace.refined > 0 and not is_fallback(trace),
        "broken": changed == (True, False) and trace.refined > 0,
        "unparsed_step": any(step.is_unparsed for step in trace.steps),
        "repaired": any(step.rejected and not step.is_unparsed for step in trace.steps),
    }
    about = {
        "id": trace.question_id,
        "page": page_name(trace.question_id),
        "question": trace.question[:_LONGEST_QUESTION],
        "video": trace.video.key,
        "state": state_of(trace),
        "letter": trace.final.letter if trace.final else None,
        "gold": trace.gold,
        # Of an open question: its answer, and the reference if there is one.
        "words": _cut(trace.final.raw) if not trace.choices and trace.final is not None else None,
        "reference": _cut(trace.reference) if trace.reference is not None else None,
        "confidence": shown_confidence(trace, is_open=not trace.choices),
        "mode": first.mode if first is not None else None,
        "marks": [name for name, is_so in marks.items() if is_so],
        "groups": dict(trace.groups),
        "seconds": trace.cost.seconds,
        "steps": len(trace.steps),
        "frames": trace.frames_seen,
    }
    return {**_plain(about)}


def page(
    trace: Trace, max_frames: int, prompts: StoredPrompts, grade: JudgeGrade | None = None
) -> tuple[dict[str, Any], list[Picture]]:
    """Everything about the question, and the thumbnails on its page: at most `max_frames` per call.
    `prompts`: of its run."""
    strip = [Picture(time) for time in strip_times(trace.video.duration)]
    pictures = list(strip)
    texts = TextTable()
    answer = trace.final.raw if trace.final is not None else ""
    rounds = [
        _round(trace, index, max_frames, prompts, pictures, texts) for index in range(len(trace.rounds))
    ]
    content = {
        "id": trace.question_id,
        "state": state_of(trace),
        "question": trace.question,
        "choices": list(trace.choices),
        "gold": trace.gold,
        "reference": trace.reference,
        "exact": exact_match(answer, trace.reference) if trace.reference is not None else None,
        "f1": token_f1(answer, trace.reference) if trace.reference is not None else None,
        "grade": grade,
        "groups": dict(trace.groups),
        "video": {
            "path": trace.video.path,
            "key": trace.video.key,
            "duration": trace.video.duration,
            "pictures": set_name(trace.video.path, trace.video.id),
            "strip": [{"time": picture.time, "key": picture.key} for picture in strip],
        },
        "evidence": trace.evidence,
        "cited": [
            (piece["start"], piece["end"])
            for piece in evidence(trace)
            if piece["cited"] and piece["start"] is not None
        ],
        "confidence": shown_confidence(trace, is_open=not trace.choices),
        "first": trace.first,
        "final": trace.final,
        "official": trace.official,
        "selected": trace.selected,
        "refined": trace.refined,
        "error": trace.error,
        "notes": [*trace.notes, *map(str, trace.stand_ins)],
        "frames": trace.frames_seen,
        "cost": trace.cost,
        "prepared": trace.prepared,
        "versions": dict(trace.versions),
    }
    return {**_plain(content), "rounds": rounds, "texts": texts.lines}, pictures


def _round(
    trace: Trace,
    index: int,
    max_frames: int,
    prompts: StoredPrompts,
    pictures: list[Picture],
    texts: TextTable,
) -> dict[str, Any]:
    attempt = trace.rounds[index]
    calls = attempt.execution.calls if attempt.execution is not None else ()
    steps = attempt.execution.steps if attempt.execution is not None else ()
    letters = LETTERS[: len(trace.choices)]
    lines = lines_of_calls(attempt.program or "", calls)
    before = _refined_by(trace, index)
    lines_shown = []
    if attempt.program is not None:
        modules = frozenset(call.fn for call in calls)
        old = None if before is None else trace.rounds[before].program
        lines_shown = listing(attempt.program, old, modules)
    about = {
        "kind": attempt.prompt_kind,
        "mode": attempt.mode,
        # Steps have their own prompts.
        "prompt": None if attempt.prompt_kind == AGENT or steps else prompts.of(attempt),
        "planning": planning_text(attempt.raw) if attempt.program else "",
        "raw": attempt.raw,
        "faults": list(attempt.faults),
        "notes": {name: note for name, note in attempt.notes.items() if name != THOUGHTS},
        "thoughts": attempt.notes.get(THOUGHTS, ""),
        "refines": before,
        "calls": [
            {**_call(call, max_frames, pictures), "line": line}
            for call, line in zip(calls, lines, strict=True)
        ],
        "steps": steps_of(steps, letters, max_frames, texts, pictures),
        "layout": layout(steps),
        "tree": tree_of(steps),
        "execution": _execution(attempt.execution),
        "cost": attempt.planning,
    }
    # A listing has no numbers to round, and most of the page.
    return {**_plain(about), "listing": [vars(line) for line in lines_shown]}


def _refined_by(trace: Trace, index: int) -> int | None:
    """The index of the round whose program this round refines; None if there is none."""
    attempt = trace.rounds[index]
    if attempt.prompt_kind not in REFINEMENT_KINDS or not index:
        return None
    before = index - 1 if attempt.refines is None else attempt.refines
    # A reply without a program has nothing to compare with, nor has a number in a damaged trace.
    return before if 0 <= before < index and trace.rounds[before].program else None


def _call(call: Call, max_frames: int, pictures: list[Picture]) -> dict[str, Any]:
    frames = shown_frames(call.frames, max_frames, pictures)
    cut = part_in(call.result)
    if cut is not None:
        picture = Picture(round(cut[0], 3))
        pictures.append(picture)
        frames.append(
            {"time": picture.time, "key": picture.key, "box": None, "whole": picture.key, "cut": cut[1]}
        )
    answer = answer_in(call.result)
    return {
        "fn": call.fn,
        "args": [
            [name, value if isinstance(value, str) else repr(value)] for name, value in call.args.items()
        ],
        "result": call.result,
        "answer": answer[0] if answer else None,
        "confidence": answer[1] if answer else None,
        "boxes": boxes_in(call.result),
        "said": lines_in(call.result),
        "frames": frames,
        "looked": len(call.frames),
        "times": times_of(call.frames),
        "intervals": call.intervals,
        "seconds": call.seconds,
        "cached": call.cached,
    }


def _execution(execution: Execution | None) -> dict[str, Any] | None:
    if execution is None:
        return None
    # The answer that counts for an open question.
    words = _cut(execution.answer.raw) if execution.status == "ok" else None
    return {
        "status": execution.status,
        "answer": execution.answer.letter or words,
        "confidence": execution.answer.confidence,
        "claim": execution.claim,
        "reasoned": _reasoned(execution),
        "letters": execution.answer.letters,
        "raw": execution.answer.raw,
        "error": execution.error,
        "cost": execution.cost,
    }


def _reasoned(execution: Execution) -> str:
    """How a program's letter got its confidence, in one line; "" if the confidence is not reasoned."""
    reasoned = execution.reasoned
    if reasoned is None:
        return ""
    if not reasoned.deciding:
        return f"A guess: {reasoned.why_guess} ({reasoned.replays} replays)."
    decided = []
    for calls in reasoned.deciding:
        named = [f"call {call + 1} {execution.calls[call].fn}" for call in calls.calls]
        sure = "no confidence" if calls.confidence is None else f"{calls.confidence:.2f}"
        decided.append(f"{' with '.join(named)} ({sure})")
    combined = "alone" if len(decided) == 1 else f"the {reasoned.rule} of these counts"
    if all(calls.confidence is None for calls in reasoned.deciding):
        combined = "no call gives a confidence, so the letter has the confidence of chance"
    return f"Decided by {', '.join(decided)}; {combined} ({reasoned.replays} replays)."


def _cut(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ANSWER else f"{line[: _LONGEST_ANSWER - 1]}…"


def _plain(value: Any) -> Any:
    """Content as plain JSON; numbers are rounded, to keep the files of thousands of questions small."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    content = value if isinstance(value, Mapping) else vars(value)
    return {name: _plain(each) for name, each in content.items()}
