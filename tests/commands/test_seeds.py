"""The table over seeds: pooled answers, answers before refinement, routing against the oracle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from videopro.commands import seeds
from videopro.errors import ConfigError, RunError
from videopro.question import Answer
from videopro.runs import RunFolder
from videopro.traces import (
    SCHEMA,
    Cost,
    Execution,
    Round,
    Trace,
    TraceLog,
    VideoRef,
)
from videopro.traces.scoring import metrics as scoring
from videopro.traces.scoring import oracle_modes


def reply(letter: str | None, confidence: float = 0.9) -> Answer:
    return Answer(letter, confidence if letter else 0.0, {}, letter or "")


def execution(answer: str | None, confidence: float = 0.9) -> Execution:
    cost = Cost(seconds=1.0, calls=2.0)
    return Execution("ok" if answer else "empty", reply(answer, confidence), cost=cost)


def program(mode: Literal["native", "program"], answer: str | None, *, faults: tuple[str, ...] = ()) -> Round:
    planning = Cost(seconds=0.5, calls=1.0, tokens_out=100.0)
    return Round("plan", "...", "...", execution(answer), mode, faults, planning=planning)


def trace(number: int, *rounds: Round, answer: str | None = "A", first: str | None = "A") -> Trace:
    """Question `number` about video number // 2, whose right answer is A."""
    cost = Cost(seconds=0.25)  # what all questions of the video share
    for attempt in rounds:
        cost = cost + attempt.planning + (attempt.execution.cost if attempt.execution else Cost())
    return Trace(
        schema=SCHEMA,
        run_key="0",
        question_id=f"q{number}",
        video=VideoRef(f"v{number // 2}.mp4", f"v{number // 2}"),
        question="?",
        choices=("a", "b"),
        gold="A",
        rounds=rounds,
        first=reply(first),
        final=reply(answer),
        selected=len(rounds) - 1,
        refined=len(rounds) - 1,
        official=answer,
        cost=cost,
    )


def run(folder: Path, *traces: Trace) -> Path:
    folder.mkdir(parents=True)
    log = TraceLog(RunFolder(folder).traces)
    log.refresh()
    for trace in traces:
        log.append(trace)
    log.close()
    return folder


def native(number: int, answer: str | None, confidence: float = 0.9) -> Trace:
    attempt = Round("native", "", execution=execution(answer, confidence), mode="native")
    return trace(number, attempt, answer=answer, first=answer)


def test_the_more_confident_answer_counts_where_it_is_asked_for(tmp_path: Path) -> None:
    """Question 0 was right at first and is as unsure, but wrong, after; 1 becomes more confident and right;
    2 was not refined. Costs stay those of both rounds."""

    def with_confidence(answer: str, confidence: float) -> Round:
        return replace(program("program", answer), execution=execution(answer, confidence))

    folder = run(
        tmp_path / "one",
        trace(0, with_confidence("A", 0.6), with_confidence("B", 0.4), answer="B"),
        trace(1, with_confidence("B", 0.3), with_confidence("A", 0.7), first="B"),
        trace(2, with_confidence("A", 0.9)),
    )
    out = tmp_path / "table.json"
    rows = [f"first=first:{folder}", f"last={folder}", f"best=best:{folder}"]
    assert seeds.main([*rows, "--output", str(out)]) == 0
    first, last, best = json.loads(out.read_text())
    assert [row["accuracy"] for row in (first, last, best)] == pytest.approx([2 / 3, 2 / 3, 1.0])
    assert best["calls"] == last["calls"] == pytest.approx(5.0)
    assert best["runs"] == [str(folder)]


def test_always_several_steps_keeps_the_programs_that_were_chosen(tmp_path: Path) -> None:
    adaptive = run(
        tmp_path / "adaptive",
        trace(0, program("native", "A"), program("program", "B"), answer="B"),
        trace(1, program("program", "A"), program("program", "B"), answer="B"),
        trace(2, program("program", "B"), answer="B", first="B"),
        trace(3, program("native", "B"), answer="B", first="B"),
    )
    # Worse under its prompt where the adaptive one wrote a program too: that does not count.
    always = run(
        tmp_path / "always",
        trace(0, program("program", "B"), answer="B", first="B"),
        trace(1, program("program", "B"), answer="B", first="B"),
        trace(2, program("program", "A")),
        trace(3, program("program", "A")),
    )
    out = tmp_path / "table.json"
    assert seeds.main([f"steps=steps:{adaptive}+{always}", "--output", str(out)]) == 0
    (row,) = json.loads(out.read_text())
    # q0 wrong and q3 right by the program run; q1 right and q2 wrong by their own first programs.
    assert row["accuracy"] == 0.5
    assert row["native_share"] == 0.0
    assert row["runs"] == [str(adaptive), str(always)]
    shorter = run(tmp_path / "shorter", trace(0, program("program", "A")))
    with pytest.raises(RunError, match=r"lacks 3 of the questions .* such as q1"):
        seeds.read_seed_row(f"steps=steps:{adaptive}+{shorter}")


def test_one_family_alone(tmp_path: Path) -> None:
    asked = [
        replace(
            trace(number, program("program", answer), answer=answer, first=answer), groups={"family": family}
        )
        for number, (answer, family) in enumerate([("A", "order"), ("B", "order"), ("A", "count")])
    ]
    folder, out = run(tmp_path / "one", *asked), tmp_path / "table.json"
    assert seeds.main([f"it={folder}", "--family", "order", "--output", str(out)]) == 0
    (row,) = json.loads(out.read_text())
    assert (row["questions"], row["accuracy"]) == (2, 0.5)


def test_oracle_is_native_only_for_right_and_confident_answers() -> None:
    found = oracle_modes(
        [native(0, "A", 0.75), native(1, "A", 0.74), native(2, "B", 0.99), native(3, None)], tau=0.75
    )
    assert found == {"q0": "native", "q1": "program", "q2": "program", "q3": "program"}


def test_the_table_pools_seeds_and_pairs_them_with_one_reference(tmp_path: Path) -> None:
    base = run(tmp_path / "native", native(0, "A"), native(1, "B"), native(2, "B"), native(3, "B"))
    seed_0 = run(
        tmp_path / "one",
        trace(0, program("native", "A")),
        trace(1, program("program", "A")),
        trace(2, program("program", "B", faults=("no planning",)), answer="B", first="B"),
        trace(3, program("native", "B"), program("program", "A"), first="B"),
    )
    seed_1 = run(
        tmp_path / "two",
        trace(0, program("program", "A")),
        trace(1, program("program", "B"), answer="B", first="B"),
        trace(2, program("program", "A")),
        trace(3, program("program", None), answer=None, first=None),
    )
    rows = [f"native={base}", f"first=first:{seed_0},first:{seed_1}", f"refined={seed_0},{seed_1}"]
    out = tmp_path / "table.json"
    assert seeds.main([*rows, "--oracle", str(base), "--output", str(out)]) == 0
    reference, first, refined = json.loads(out.read_text())

    assert reference["accuracy"] == 0.25
    assert "difference" not in reference
    assert "well_formed" not in reference
    # Of the first run's four answers two are right at first, and two of the second's; after refinement three
    # and two.
    assert first["seeds"] == [0.5, 0.5]
    assert refined["seeds"] == [0.75, 0.5]
    assert refined["accuracy"] == pytest.approx(5 / 8)
    assert refined["difference"] == pytest.approx(3 / 8)
    # 7 of 8 first replies are well-formed. The oracle is native for q0 alone: the first run takes native
    # there, the second does not (1 of 2); for the rest the first takes a program in two of three, the second
    # in all three (5 of 6).
    assert first["well_formed"] == pytest.approx(7 / 8)
    assert first["mode_accuracy"] == pytest.approx(6 / 8)
    assert first["mode_balanced_accuracy"] == pytest.approx((1 / 2 + 5 / 6) / 2)
    # One question was refined: 100 tokens a plan, nine plans over eight answers.
    assert first["planner_tokens_out"] == 100.0
    assert refined["planner_tokens_out"] == pytest.approx(900 / 8)
    assert first["calls"] == 3.0
    assert refined["calls"] == pytest.approx(27 / 8)


def test_the_same_run_twice_does_not_narrow_the_interval() -> None:
    records = [scoring.QuestionScore(f"q{i}", f"v{i}", i % 3 > 0, None, False, 0.9) for i in range(30)]
    again = [replace(record, question_id=f"again {record.question_id}") for record in records]
    once = scoring.accuracy(records).ci95
    assert scoring.accuracy([*records, *again], distinct=30).ci95 == pytest.approx(once)


def test_seeds_that_cannot_be_paired_are_refused(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(i), native(0, "A"), native(1, "B")) for i in range(3)]
    rows = [seeds.read_seed_row(f"{len(some)}={','.join(map(str, some))}") for some in (runs[:2], runs)]
    with pytest.raises(ConfigError, match="3 seeds and the first row 2"):
        seeds.seed_table(rows, {}, {})
