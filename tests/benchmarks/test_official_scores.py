"""Our official scores of 1,000 replies for each benchmark against what the official code made of them
(official_scorers/recorded, with repository, file and commit), to the last digit that it prints."""

import pytest

from tests.benchmarks.official_scores import CASES, Case, compare, digest, recorded, table
from tests.support import ROOT
from videopro.benchmarks import BENCHMARKS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_scores_are_the_official_ones(case: Case) -> None:
    found = compare(case)
    assert found.official["replies_sha256"] == digest(case), "the record is of other replies"
    runs = found.official["verdicts"] if case.name == "cg_bench" else [found.official["verdicts"]]
    assert [len(run) for run in runs] == [1000] * len(runs)
    assert found.official["verdicts"] == found.own.verdicts
    assert found.verdicts_that_differ() == 0
    assert found.numbers_that_differ() == list(case.differ)
    assert all(len(script["commit"]) >= 7 for script in found.official["scripts"])


def test_every_benchmark_is_compared() -> None:
    compared = {name for name in BENCHMARKS for case in CASES if case.name.startswith(name)}
    assert set(BENCHMARKS) - compared == {"pocket", "jsonl"}


def test_only_the_script_whose_reason_the_page_gives_differs() -> None:
    (case,) = [case for case in CASES if case.differ]
    assert case.name == "videomme_v2_authors"
    # With 0 for a reply that it cannot read, every score of the script is compared too, and is equal.
    assert set(recorded(case)["numbers"]) == {*case.differ, *(f"{name}, unread 0" for name in case.differ)}


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs/results/official-scorers.md").read_text(encoding="utf-8")
    assert table() in page
