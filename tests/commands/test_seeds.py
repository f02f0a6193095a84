"""The table over seeds: pooled answers, answers before refinement, routing against the oracle."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_world import answers, direct_round, program, trace, write_run
from videopro.commands import seeds
from videopro.errors import ConfigError, RunError
from videopro.traces import Round
from videopro.traces.scoring import QuestionScore, accuracy, oracle_modes


def plan(answer: str | None, confidence: float = 0.9) -> Round:
    return program(answer, confidence)


def look(answer: str) -> Round:
    """A program that asks the model about the whole video."""
    return program(answer, 0.9, mode="native")


def run(folder: Path, *questions: Sequence[Round]) -> Path:
    """A run with the rounds of each question; A is right."""
    return write_run(folder, [trace(number, rounds) for number, rounds in enumerate(questions)])


def native(folder: Path, letters: str) -> Path:
    return write_run(folder, answers(letters))


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs the command with some rows; what it writes."""

    def table(*words: str) -> list[dict[str, Any]]:
        assert seeds.main([*words, "--output", str(tmp_path / "table.json")]) == 0
        return list(json.loads((tmp_path / "table.json").read_text()))

    return table


SeedTable = Callable[..., list[dict[str, Any]]]


def test_the_more_confident_answer_counts_where_it_is_asked_for(tmp_path: Path, table: SeedTable) -> None:
    """Question 0 was right at first and is as unsure, but wrong, after; 1 becomes more confident and right;
    2 was not refined. Costs stay those of both rounds."""
    changed = [plan("A", 0.6), plan("B", 0.4)], [plan("B", 0.3), plan("A", 0.7)]
    folder = run(tmp_path / "one", *changed, [plan("A")])
    first, last, best = table(f"first=first:{folder}", f"last={folder}", f"best=best:{folder}")
    assert [row["accuracy"] for row in (first, last, best)] == pytest.approx([2 / 3, 2 / 3, 1.0])
    assert best["calls"] == last["calls"] == pytest.approx(5.0)
    assert best["runs"] == [str(folder)]


def test_always_several_steps_keeps_the_programs_that_were_chosen(tmp_path: Path, table: SeedTable) -> None:
    chosen = [look("A"), plan("B")], [plan("A"), plan("B")], [plan("B")], [look("B")]
    adaptive = run(tmp_path / "adaptive", *chosen)
    # Worse under its prompt where the adaptive one wrote a program too: that does not count.
    always = run(tmp_path / "always", *([plan(letter)] for letter in "BBAA"))
    (row,) = table(f"steps=steps:{adaptive}+{always}")
    # q0 wrong and q3 right by the program run; q1 right and q2 wrong by their own first programs.
    assert row["accuracy"] == 0.5
    assert row["native_share"] == 0.0
    assert row["runs"] == [str(adaptive), str(always)]
    shorter = run(tmp_path / "shorter", [plan("A")])
    with pytest.raises(RunError, match=r"lacks 3 of the questions .* such as q1"):
        seeds.read_seed_row(f"steps=steps:{adaptive}+{shorter}")


def test_one_family_alone(tmp_path: Path, table: SeedTable) -> None:
    asked = [
        trace(number, [plan(letter)], groups={"family": family})
        for number, (letter, family) in enumerate([("A", "order"), ("B", "order"), ("A", "count")])
    ]
    (row,) = table(f"it={write_run(tmp_path / 'one', asked)}", "--family", "order")
    assert (row["questions"], row["accuracy"]) == (2, 0.5)


def test_oracle_is_native_only_for_right_and_confident_answers() -> None:
    given = ("A", 0.75), ("A", 0.74), ("B", 0.99), (None, 0.9)
    found = oracle_modes([trace(n, [direct_round(*answer)]) for n, answer in enumerate(given)], tau=0.75)
    assert found == {"q0": "native", "q1": "program", "q2": "program", "q3": "program"}


def test_the_table_pools_seeds_and_pairs_them_with_one_reference(tmp_path: Path, table: SeedTable) -> None:
    base = native(tmp_path / "native", "ABBB")
    faulty = replace(plan("B"), faults=("no planning",))
    seed_0 = run(tmp_path / "one", [look("A")], [plan("A")], [faulty], [look("B"), plan("A")])
    seed_1 = run(tmp_path / "two", *([plan(letter)] for letter in ("A", "B", "A", None)))
    rows = [f"native={base}", f"first=first:{seed_0},first:{seed_1}", f"refined={seed_0},{seed_1}"]
    reference, first, refined = table(*rows, "--oracle", str(base))

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
    records = [QuestionScore(f"q{i}", f"v{i}", i % 3 > 0, None, False, 0.9) for i in range(30)]
    again = [replace(record, question_id=f"again {record.question_id}") for record in records]
    once = accuracy(records).ci95
    assert accuracy([*records, *again], distinct=30).ci95 == pytest.approx(once)


def test_seeds_that_cannot_be_paired_are_refused(tmp_path: Path) -> None:
    runs = [native(tmp_path / str(i), "AB") for i in range(3)]
    rows = [seeds.read_seed_row(f"{len(some)}={','.join(map(str, some))}") for some in (runs[:2], runs)]
    with pytest.raises(ConfigError, match="3 seeds, but the first row 2"):
        seeds.seed_table(rows, {}, {})
