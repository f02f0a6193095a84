"""From a trace to a verdict: was the question answered, right, and by the official reader too.

Knows traces; nothing of benchmarks or of how a run is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro.question import NO_OPTION
from videopro.scoring.metrics import QuestionScore
from videopro.traces import Trace

# Errors of the input: no method could have answered, so such a question leaves the denominator and shows in
# the coverage. Every other error (a refused request, a dead worker) counts as a wrong answer.
INPUT_ERRORS = ("VideoError", "SubtitleError")


def scored(trace: Trace) -> QuestionScore:
    """The verdicts on one question. A question without an answer is wrong, and has not been unparsed."""
    final = trace.final
    return QuestionScore(
        question_id=trace.question_id,
        video=trace.video.key,
        correct=final is not None and trace.is_right(final.letter),
        official_correct=None if trace.official is None else trace.official == trace.gold,
        unparsed=final is not None and final.letter is None,
        confidence=final.confidence if final is not None else 0.0,
        groups=trace.groups,
    )


def records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """The verdicts on the questions that are scored: those whose right answer is known and among their
    options, and whose video could be read."""
    return official_records_of([trace for trace in traces if trace.gold != NO_OPTION])


def official_records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """The same with the questions none of whose options is right, which official scorers count as wrong."""
    return [scored(trace) for trace in traces if trace.gold is not None and is_answerable(trace)]


def is_answerable(trace: Trace) -> bool:
    """Whether the input could be read, so that a method could have answered."""
    return trace.error is None or trace.error.type not in INPUT_ERRORS
