"""Exact match and token F1: golden outputs of SQuAD's own script, and metrics worked out by hand."""

import json
from pathlib import Path

import pytest

from tests.support.traces import make as trace
from videopro.question import Answer
from videopro.traces import Failure, Trace, VideoRef
from videopro.traces.scoring import exact_match, open_difference, open_metrics, open_scores, token_f1

GOLDEN = json.loads((Path(__file__).parent / "squad.json").read_text(encoding="utf-8"))["rows"]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['answer']!r} for {row['reference']!r}")
def test_answers_are_graded_as_by_the_official_script(row: dict[str, object]) -> None:
    answer, reference = str(row["answer"]), str(row["reference"])
    assert exact_match(answer, reference) == bool(row["exact"])
    assert token_f1(answer, reference) == pytest.approx(row["f1"], abs=1e-12)


def asked(question_id: str, video: str, reference: str | None, words: str, **changes: object) -> Trace:
    return trace(
        question_id,
        video=VideoRef(f"{video}.mp4", video),
        choices=(),
        gold=None,
        reference=reference,
        final=Answer(raw=words, confidence=0.5),
        **changes,
    )


TRACES = [
    asked("q1", "v", "a red cup", "The red cup."),  # exact
    asked("q2", "v", "a red cup", "a blue cup"),  # one of two words: 1/2
    asked("q3", "w", "running", ""),  # no answer
    asked("q4", "w", None, "anything"),  # not gradable
    trace("q5"),  # multiple choice
    trace("q6", choices=(), gold=None, reference="x", final=None, error=Failure("VideoError", "broken")),
    trace("q7", choices=(), gold=None, reference="x", final=None, error=Failure("WorkerDied", "x")),
]


def test_open_questions_of_a_run() -> None:
    scores = open_scores(TRACES)
    assert [(score.question_id, score.exact, score.f1, score.is_answered) for score in scores] == [
        ("q1", True, 1.0, True),
        ("q2", False, 0.5, True),
        ("q3", False, 0.0, False),
        ("q7", False, 0.0, False),
    ]
    found = open_metrics(scores)
    assert (found.n, found.videos) == (4, 2)
    assert (found.exact_match, found.f1, found.unanswered) == (0.25, 0.375, 0.5)
    low, high = found.f1_ci95
    assert 0 <= low < 0.375 < high <= 1


def test_runs_are_compared_question_by_question() -> None:
    first = open_scores([asked("q1", "v", "cup", "cup"), asked("q2", "w", "dog", "cat")])
    second = open_scores([asked("q1", "v", "cup", "book"), asked("q3", "w", "dog", "dog")])
    gap = open_difference(first, second)
    assert (gap.n, gap.videos, gap.exact_match, gap.f1) == (1, 1, 1.0, 1.0)
    assert tuple(gap.f1_ci95) == (-1.0, 1.0)  # one video says nothing about others
    assert open_difference(first, []) is None
