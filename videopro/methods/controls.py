"""Whether an answer depends on what it cites: the question asked again without that, and with that alone, in
one more pass of the model each. Programs are replayed instead (`videopro.methods.program.deciding`).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from videopro.backbones import ChoiceRequest
from videopro.benchmarks import Item
from videopro.errors import QUESTION_ERRORS
from videopro.methods.base import MethodContext
from videopro.question import prompts
from videopro.traces import Control, Result, evidence
from videopro.video import frame_times

NEAR_SECONDS = 3.0
"""Frames this near to what is cited show nearly the same."""


def with_controls(result: Result, item: Item, context: MethodContext) -> Result:
    """The result with the controls of its answer, unless it has no letter, or a program gave it.

    Without what it cites, the model sees those frames of a direct answer that are more than NEAR_SECONDS away
    from it; with that alone, the cited frames, the middles of cited intervals without frames, and the words
    that were said or read. A direct answer cites all that it was shown, so with that alone it stays.
    """
    if result.selected is None or result.error is not None:
        return result
    selected = result.rounds[result.selected]
    execution = selected.execution
    if execution is None or execution.answer.letter is None or selected.program is not None:
        return result
    pieces = [piece for piece in evidence(result, most=sys.maxsize) if piece["cited"]]
    spans = [(piece["start"], piece["end"]) for piece in pieces if piece["start"] is not None]
    video, most = context.video, context.backbone.frames
    away = [
        time
        for time in frame_times(video, context.protocol.sampling, most, context.protocol.fps)
        if not any(start - NEAR_SECONDS <= time <= end + NEAR_SECONDS for start, end in spans)
    ]
    found = {"without": _asked(item, context, away, [])}
    if execution.steps:
        times = sorted({time for piece in pieces for time in _times(piece)})
        chosen = np.linspace(0, len(times) - 1, min(most, len(times))).round().astype(int)
        said = [piece["text"] for piece in pieces if piece["kind"] in ("subtitle", "text")]
        found["alone"] = _asked(item, context, [times[i] for i in chosen], said)
    else:
        found["alone"] = Control(execution.answer.letter)
    rounds = [*result.rounds]
    rounds[result.selected] = replace(selected, execution=replace(execution, controls=found))
    return replace(result, rounds=tuple(rounds))


def _times(piece: dict[str, Any]) -> list[float]:
    if piece["start"] is None or piece["kind"] == "subtitle":
        return []
    return piece.get("times") or [(piece["start"] + piece["end"]) / 2]


def _asked(item: Item, context: MethodContext, times: list[float], lines: list[str]) -> Control:
    """The answer to the question with these frames and lines."""
    prompt = prompts.with_context("\n".join(lines), prompts.direct(item.question))
    try:
        frames = context.frames(times) if times else None
        (answer,) = context.backbone.answer_batch([ChoiceRequest(frames, item.question, prompt)])
    except QUESTION_ERRORS as error:
        return Control(failure=str(error))
    return Control(answer.letter)
