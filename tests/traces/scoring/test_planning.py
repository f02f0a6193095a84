"""The summary of runs of programs, by hand: modes, output, repairs, paired differences."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.traces import make
from videopro.question import Answer
from videopro.traces import FALLBACK, Cost, Execution, Failure, Round, Trace
from videopro.traces.scoring import QuestionScore, mode_shares, paired_difference, program_metrics


def trace(name: str, first: str | None, last: str | None, *rounds: Round, refined: int = 1) -> Trace:
    is_fallback = rounds[-1].prompt_kind == FALLBACK
    return make(
        name,
        rounds=rounds,
        first=Answer(first, 0.5 if first else 0.0, {}, ""),
        final=Answer(last, 0.5 if last else 0.0, {}, ""),
        selected=len(rounds) - 1 if is_fallback else refined,
        refined=refined,
        cost=Cost(tokens_out=len(rounds) * 10),
    )


def one_round(kind: str, length: int, status: Any, mode: Any, fault: str = "") -> Round:
    error = Failure("NameError", "x") if status == "failed" else None
    execution = Execution(status, Answer("A" if status == "ok" else None), error=error)
    notes = {"fault": fault} if fault else {}
    return Round(kind, "x" * length, "x", execution, mode=mode, notes=notes)


def test_modes_output_and_repairs_are_counted() -> None:
    broken = one_round("plan", 100, "failed", "program", "plain bug")
    traces = [
        trace("fixed", None, "A", broken, one_round("bug_fix", 50, "ok", "program")),
        # Not fixed, and answered directly: correctly, but not by a program.
        trace(
            *("not fixed", None, "A", broken, one_round("bug_fix", 50, "failed", "program")),
            one_round("fallback", 1, "ok", "native"),
        ),
        trace(
            *("unsure, then worse", "A", "B", one_round("plan", 30, "ok", "native", "none")),
            one_round("native_refinement", 70, "ok", "program"),
        ),
        # Its refinement is stored for other thresholds.
        trace(
            *("confident", "A", "A", one_round("plan", 10, "ok", "program", "clumsy query")),
            one_round("program_refinement", 999, "ok", "program"),
            refined=0,
        ),
    ]
    numbers = program_metrics(traces)
    modes = {"native": 0.25, "program": 0.75, "none": 0.0, "refined": 0.75, "fallback": 0.25}
    assert mode_shares(traces) == modes
    assert numbers["output"] == {"characters": (150 + 150 + 100 + 10) / 4, "tokens": (20 + 30 + 20 + 20) / 4}
    assert numbers["repairs"]["by_state"] == {
        "failed": {
            "n": 2, "failed": 2, "refined": 2, "repaired": 1, "repaired_of_failed": 1,
            "right_before": 0, "right_after": 1,
        },
        "unsure": {
            "n": 1, "failed": 0, "refined": 1, "repaired": 1, "repaired_of_failed": 0,
            "right_before": 1, "right_after": 0,
        },
    }  # fmt: skip
    counted = {
        name: (counts["n"], counts["refined"], counts["right_after"])
        for name, counts in numbers["repairs"]["by_fault"].items()
    }
    assert counted == {"plain bug": (2, 2, 1), "none": (1, 1, 0), "clumsy query": (1, 0, 1)}
    assert mode_shares([])["native"] is None


def scored(marks: dict[str, str]) -> Iterator[QuestionScore]:
    """From {"video": "1011"}: one question a digit."""
    for video, digits in marks.items():
        for i, digit in enumerate(digits):
            yield QuestionScore(f"{video}{i}", video, digit == "1", None, False, 0.5)


def test_paired_differences_by_hand() -> None:
    """Differences by video: a: 1, 1; b: 0, 1; c: -1, 0. Their mean is 2/6; the residuals' sums are 4/3, 1/3
    and -5/3, whose squares sum to 42/9. The standard error is sqrt(3/2 x 42/9) / 6 = sqrt(7) / 6; Student's
    t (2 degrees of freedom, 97.5 %) is 4.30265."""
    first = list(scored({"a": "11", "b": "11", "c": "01"}))
    second = list(scored({"a": "00", "b": "10", "c": "11"}))
    gap = paired_difference(first, second)
    assert (gap.difference, gap.n, gap.clusters) == (pytest.approx(1 / 3), 6, 3)
    half = 4.30265 * 7**0.5 / 6
    assert gap.ci95 == pytest.approx((max(-1, 1 / 3 - half), 1.0), abs=1e-4)


def test_paired_differences_of_equal_runs_and_of_no_runs() -> None:
    same = list(scored({str(i): "10" for i in range(20)}))
    gap = paired_difference(same, same)
    # None of 20 videos differs: up to 13.9 % may (1 - 0.05 ** (1 / 20)).
    assert gap.difference == 0
    assert gap.ci95 == pytest.approx((-0.1391, 0.1391), abs=1e-4)
    assert paired_difference(same, list(scored({"other": "1"}))).difference is None
    assert paired_difference(list(scored({"a": "1"})), list(scored({"a": "0"}))).ci95 == (-1.0, 1.0)
