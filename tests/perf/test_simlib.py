"""The cells of the experiments on simlib: finished ones are kept, and a world is opened for trained
decoders."""

import json
from pathlib import Path

import numpy as np
import pytest

from perf import simlib, simlib_claims
from videopro.simlib import TESTS, Lesson, train


def test_finished_cells_are_kept_and_missing_ones_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simlib, "STORIES", {"val": 1, "test": 1})
    output, trained = tmp_path / "simlib.json", []

    def noting(arm: str, *rest: object, **named: object) -> object:
        trained.append(arm)
        return train(arm, *rest, **named)

    monkeypatch.setattr(simlib, "train", noting)

    def run(arms: tuple[str, ...], *worlds: str) -> dict[str, dict[str, object]]:
        simlib.work(simlib.SimlibSettings(arms=arms, steps=2, worlds=worlds or ("val",), output=output))
        return json.loads(output.read_text())["reads"]

    first = run(("fixed",))
    assert set(first["fixed/0/0.5/2"]["val"]) == {*TESTS}
    both = run(("fixed", "dropped"))
    assert trained == ["fixed", "dropped"]
    assert both["fixed/0/0.5/2"] == first["fixed/0/0.5/2"]
    opened = run(("fixed",), "val", "test")
    assert trained == ["fixed", "dropped"]
    assert opened["fixed/0/0.5/2"]["val"] == first["fixed/0/0.5/2"]["val"]
    assert set(opened["fixed/0/0.5/2"]["test"]) == {*TESTS}
    assert "test" not in opened["dropped/0/0.5/2"]
    table = json.loads(output.read_text())["by_arm"]
    assert set(table) == {"val: fixed, 0.5, 2", "test: fixed, 0.5, 2", "val: dropped, 0.5, 2"}
    assert table["val: fixed, 0.5, 2"]["seeds"] == 1
    # On a machine that has the record alone, both worlds are those of one training.
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "another"))
    again = run(("dropped",), "val", "test")
    assert trained == ["fixed", "dropped", "dropped"]
    assert {"val", "test"} <= again["dropped/0/0.5/2"].keys()


def test_the_mean_of_seeds_is_shown_with_the_least_and_the_most() -> None:
    """Two seeds, by hand: 40 and 60 % the oracle's; 0.3 and 0.5 right where the oracle has 0.5."""

    def found(same: float, right: float) -> dict[str, object]:
        shares = {"same": same, "absent": 0.0, "right": right, "oracle": 0.5}
        return {test: {**shares, "missing": {"questions": 10, **shares}} for test in TESTS}

    cells = {
        f"dropped/{seed}/0.5/9": {"questions": 90, "cpu_s": 10.0 * seed, "val": found(same, right)}
        for seed, (same, right) in enumerate([(0.4, 0.3), (0.6, 0.5)])
    }
    row = simlib.by_arm(cells)["val: dropped, 0.5, 9"]
    assert (row["seeds"], row["cpu_s"]) == (2, 5)
    assert row["tests"]["both"]["same"] == {"mean": 0.5, "low": 0.4, "high": 0.6}
    assert row["tests"]["both"]["missing"] == {"mean": 0.8, "low": 0.6, "high": 1.0}


def test_cells_of_the_claims_go_on_from_their_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    for name, value in {
        "STORIES": {"val": 2, "test": 1},
        "TAUGHT_STORIES": 4,
        "STEPS": 2,
        "SECONDS": 0.5,
    }.items():
        monkeypatch.setattr(simlib_claims, name, value)
    output = tmp_path / "claims.json"

    def run(*arms: str) -> dict[str, dict[str, object]]:
        simlib_claims.work(simlib_claims.ClaimSettings(arms=arms, seeds=(0, 1), output=output))
        return json.loads(output.read_text())

    record = run("start", "grpo", "rejection", "without-R3")
    assert set(record["cells"]) == {
        f"{arm}/{seed}" for arm in ("start", "grpo", "rejection", "without-R3") for seed in (0, 1)
    }
    for sums in record["cells"]["start/0"]["val"].values():
        assert sum(sums["gist"]["n"]) + sum(sums["other"]["n"]) == 24
    assert set(record["shares"]["val"]) == {"start", "grpo", "rejection", "without-R3"}
    assert "grpo over rejection: first" in record["findings"]["val"]
    assert "start over without-R3: final" in record["findings"]["val"]
    # What is there is not made again.
    monkeypatch.setattr(simlib_claims, "trained", None)
    assert run("start")["cells"] == record["cells"]


def test_arms_that_leave_a_kind_out_have_as_many_rows_or_tokens() -> None:
    # Ten times three rows of R1 and one of each other kind; replies of 1, 2, 3 and 4 tokens. Without R1 there
    # are 30 rows, and the first 30 of all kinds have 60 tokens.
    kinds = [1, 1, 1, 2, 3, 4] * 10
    rows = [(f"R{kind}", Lesson([[number]], [[6]], [[7] * kind])) for number, kind in enumerate(kinds)]
    assert len(simlib_claims.chosen(rows, "start")) == 30
    for kind in range(1, 5):
        lessons = simlib_claims.chosen(rows, f"without-R{kind}")
        assert len(lessons) == 30
        of_tokens = simlib_claims.chosen(rows, f"tokens-without-R{kind}")
        assert 60 <= sum(map(simlib_claims.tokens, of_tokens)) < 60 + 4
        assert all(len(each.replies[0]) != kind for each in (*lessons, *of_tokens))
        # Nothing joins rows about other libraries: a batch ends with the row that fills it.
        feed = simlib_claims.batches(of_tokens, np.random.default_rng(0), simlib_claims.tokens, 12.0)
        assert all(12 <= sum(map(simlib_claims.tokens, next(feed))) < 12 + 4 for _ in range(3))
