"""Score traces: whether the question was answered correctly, by our parser and by the official one."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.question import NO_OPTION, OR
from videopro.scoring.metrics import QuestionScore
from videopro.traces import Trace

# Input errors: no method could have answered, so such a question is left out of the accuracy and lowers the
# coverage. Every other error (a refused request, a crashed worker) counts as a wrong answer.
INPUT_ERRORS = ("VideoError", "SubtitleError")


def score_trace(trace: Trace) -> QuestionScore:
    """The score of a question. A question without any reply is wrong, but not unparsed."""
    final = trace.final
    return QuestionScore(
        question_id=trace.question_id,
        video=trace.video.key,
        correct=final is not None and trace.is_right(final.letter),
        official_correct=None if trace.official is None else trace.gold in trace.official.split(OR),
        unparsed=final is not None and final.letter is None,
        confidence=final.confidence if final is not None else 0.0,
        groups=trace.groups,
    )


def records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """The scores of the questions whose correct answer is known and among the options, and whose video could
    be read."""
    return official_records_of([trace for trace in traces if trace.gold != NO_OPTION])


def official_records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """Like `records_of`, plus questions with no correct option, which official scorers count as wrong."""
    return [score_trace(trace) for trace in traces if trace.gold is not None and is_answerable(trace)]


def is_answerable(trace: Trace) -> bool:
    """Whether the input could be read, so that a method could have answered."""
    return trace.error is None or trace.error.type not in INPUT_ERRORS
