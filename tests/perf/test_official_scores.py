"""Our official scores of 1,000 replies against what the official code made of them
(perf/official_scorers/recorded, with repository, file and commit), to the last digit that it prints."""

from __future__ import annotations

import pytest

from perf import official_scores
from perf.official_scores import CASES, Case, compare, digest, recorded
from tests.support import ROOT


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_scores_are_the_official_ones(case: Case) -> None:
    found = compare(case)
    assert found.official["verdicts"] == found.own.verdicts
    assert found.verdicts_that_differ() == 0
    assert found.numbers_that_differ() == []
    assert all(len(script["commit"]) >= 7 for script in found.official["scripts"])


def test_the_record_is_of_these_replies() -> None:
    assert {recorded(case)["replies_sha256"] for case in CASES} == {digest()}


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in CASES if case.name == "egoschema"]
    content = recorded(case)
    turned = {"0": "1", "1": "0"}[content["verdicts"][7]]
    verdicts = content["verdicts"][:7] + turned + content["verdicts"][8:]
    changed = {**content, "verdicts": verdicts, "numbers": {"score": content["numbers"]["score"] + 0.001}}
    monkeypatch.setattr(official_scores, "recorded", lambda case: changed)
    found = compare(case)
    assert (found.verdicts_that_differ(), found.numbers_that_differ()) == (1, ["score"])


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs/results/official-scorers.md").read_text(encoding="utf-8")
    assert official_scores.table() in page
