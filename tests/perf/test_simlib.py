"""The cells of the experiments on simlib: finished ones are kept, and a world is opened for trained
decoders."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from perf import simlib, simlib_claims, simlib_smollm2
from videopro.errors import ConfigError
from videopro.methods.planners import PlanRequest
from videopro.simlib import TESTS, Lesson, shortcuts, train
from videopro.simlib import reinforcing as own
from videopro.simlib.library import Library
from videopro.simlib.rows import row_of
from videopro.simlib.story import make_story
from videopro.train.rewards import Rewards


@pytest.fixture(autouse=True)
def short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders that were hardly trained do not end a reply by themselves."""
    for module in ("decoder", "reinforcing"):
        monkeypatch.setattr(f"videopro.simlib.{module}.LONGEST", 8)


def test_finished_cells_are_kept_and_missing_ones_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simlib, "STORIES", {"val": 1, "test": 1})
    monkeypatch.setattr(simlib, "shortcuts", lambda world, stories: shortcuts(world, 2))
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


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (
            simlib.SimlibSettings,
            {"arms": ("curiculum",)},
            "unknown arm 'curiculum'; did you mean 'curriculum'",
        ),
        (simlib.SimlibSettings, {"sizes": ("3",)}, "unknown size '3'; known: 0.5, 2, 8"),
        (simlib.SimlibSettings, {"steps": 0}, "steps is 0; it must be at least 1"),
        (simlib.SimlibSettings, {"worlds": ("train",)}, "unknown world 'train'"),
        (simlib_claims.ClaimSettings, {"arms": ("start", "without-R5")}, "unknown arm 'without-R5'"),
        (simlib_claims.ClaimSettings, {"arms": ("grpo@fast",)}, "as in grpo@1e-4"),
        (simlib_claims.ClaimSettings, {"arms": ("start@1e-3",)}, "as in grpo@1e-4"),
        (simlib_claims.ClaimSettings, {"seeds": (10,)}, "seed 10: seeds go from 0 to 9"),
        (simlib_claims.ClaimSettings, {"worlds": ("tset",)}, "did you mean 'test'"),
        (simlib_smollm2.SmolSettings, {"arm": "rename"}, "unknown arm 'rename'; did you mean 'renamed'"),
        (simlib_smollm2.SmolSettings, {"seed": -1}, "seed -1: seeds go from 0 to 9"),
    ],
)
def test_what_no_experiment_has_is_refused_before_any_training(
    kind: type[object], wrong: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        kind(**wrong)


def test_the_mean_of_seeds_is_shown_with_the_least_and_the_most() -> None:
    """Two seeds, by hand: 40 and 60 % the oracle's; 0.3 and 0.5 right where the oracle has 0.5."""

    def found(same: float, right: float) -> dict[str, object]:
        shares = {"same": same, "absent": 0.0, "right": right, "oracle": 0.5}
        return {test: {**shares, "missing": {"questions": 10, **shares}} for test in TESTS}

    cells = {
        f"dropped/{seed}/0.5/9": {"questions": 90 + seed, "cpu_s": 10.0 * seed, "val": found(same, right)}
        for seed, (same, right) in enumerate([(0.4, 0.3), (0.6, 0.5)])
    }
    row = simlib.by_arm(cells)["val: dropped, 0.5, 9"]
    assert (row["seeds"], row["questions"], row["cpu_s"]) == (2, 90, 5)
    assert row["tests"]["both"]["same"] == {"mean": 0.5, "low": 0.4, "high": 0.6}
    assert row["tests"]["both"]["missing"] == {"mean": 0.8, "low": 0.6, "high": 1.0}


def test_cells_of_the_claims_go_on_from_their_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    for name, value in {
        "STORIES": {"val": 1, "test": 1},
        "TAUGHT_STORIES": 3,
        "SEEN": 20,
        "SECONDS": 0.1,
        "GROUPS": 1,
        # Two of the four.
        "CHANNELS": {name: simlib_claims.CHANNELS[name] for name in ("informed x 1", "uninformed x 3")},
    }.items():
        monkeypatch.setattr(simlib_claims, name, value)
    output = tmp_path / "claims.json"

    def run(*arms: str, seeds: tuple[int, ...] = (0, 1), world: str = "val") -> dict[str, dict[str, object]]:
        simlib_claims.work(
            simlib_claims.ClaimSettings(arms=arms, seeds=seeds, worlds=(world,), output=output)
        )
        return json.loads(output.read_text())

    record = run("start", "grpo", "rejection", "without-R3")
    assert set(record["cells"]) == {
        f"{arm}/{seed}" for arm in ("start", "grpo", "rejection", "without-R3") for seed in (0, 1)
    }
    for sums in record["cells"]["start/0"]["val"].values():
        assert sum(sums["gist"]["n"]) + sum(sums["other"]["n"]) == 12
    assert set(record["shares"]["val"]) == {"start", "grpo", "rejection", "without-R3"}
    assert "grpo over rejection: first" in record["findings"]["val"]
    assert "start over without-R3: final" in record["findings"]["val"]
    assert record["cells"]["grpo/0"]["steps"] > 0
    # What is there is not made again; but arms go on from one start, and with a new one all are new, in all
    # worlds that they had.
    made: list[str] = []
    was = simlib_claims.trained
    monkeypatch.setattr(
        simlib_claims, "trained", lambda arm, seed: made.append(f"{arm}/{seed}") or was(arm, seed)
    )
    assert run("start", "grpo")["cells"] == record["cells"]
    assert made == []
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "another"))
    again = run("grpo-no-mode", seeds=(1,), world="test")["cells"]
    assert made == ["start/1", "grpo/1", "rejection/1", "grpo-no-mode/1"]
    assert all({"val", "test"} <= again[name].keys() for name in made[:3])
    assert again["without-R3/1"] == record["cells"]["without-R3/1"]
    assert "val" not in again["grpo-no-mode/1"]
    # Also where a run was killed when its start was trained, and not yet in the record.
    path = simlib_claims.weights("start", 1).with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "weights": 1.0}))
    made.clear()
    run("rejection", seeds=(1,), world="test")
    assert made == []
    run("rejection", seeds=(1,), world="val")
    assert made == []
    run("grpo-no-mode", seeds=(1,), world="val")
    assert made == ["start/1", "grpo/1", "rejection/1", "grpo-no-mode/1"]


def test_in_turn_each_has_its_own_rate_and_half(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 25.0, 50.0, 75.0, 100.0))
    done: list[tuple[str, float, float]] = []

    class Noting:
        def __init__(self, decoder: object, rate: float) -> None:
            self.rate, self.losses = rate, ()

        def step(self, lessons: list[str], progress: float, warmup: int) -> None:
            done.append((lessons[0], self.rate, progress))

    monkeypatch.setattr(simlib_claims, "cpu_seconds", lambda: next(clock))
    monkeypatch.setattr(simlib_claims, "Learner", Noting)
    modes: list[object] = []
    monkeypatch.setattr(own, "roll_out", lambda *of, modes: [modes])
    monkeypatch.setattr(own, "rejection_lesson", lambda row, groups: modes.extend(groups) or "rejection")
    monkeypatch.setattr(own, "grpo_lesson", lambda row, groups, reward: modes.extend(groups) or "grpo")
    simlib_claims.going_on("rejection-grpo", 0, None)
    rates = simlib_claims.RATES["rejection"], simlib_claims.RATE
    assert rates[0] != rates[1]
    assert done == [("rejection", rates[0], 0.5), ("grpo", rates[1], 0.0), ("grpo", rates[1], 0.5)]
    # Rejection asks for a program each time, and GRPO by the oracle modes of A.3.
    assert {*modes[0]} == {"program"}
    assert modes[-1] is None


def test_a_planner_without_a_fault_writes_the_best_way_and_then_the_best_of_the_others() -> None:
    story = make_story("val", 0)
    (asked,) = (each for each in story.questions if each.kind == "color")
    row = row_of(story, Library.fixed(("get_color", "query_native")), simlib_claims.Channel(), {"color"})
    requests = [PlanRequest(kind, "", asked.question) for kind in ("plan", "refine")]

    def written(*, looks: bool, is_sample: bool = False) -> list[str]:
        faultless = simlib_claims.Faultless(row, simlib_claims.Channel(), looks=looks, is_sample=is_sample)
        names = ("get_color", "query_native")
        return [name for reply in faultless.write(requests) for name in names if f"{name}(" in reply.text]

    assert written(looks=False) == ["get_color", "query_native"]
    assert written(looks=True) == ["query_native", "get_color"]
    assert written(looks=False, is_sample=True) == ["query_native", "query_native"]


def test_evidence_at_random_pays_no_reply_by_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rewards = Rewards(1.0, 1.0, 1.0)
    group = [
        SimpleNamespace(rewards=rewards, overlap=each, ids=[at]) for at, each in enumerate((0.1, 0.5, 0.9))
    ]
    groups = [[*group, group[0]]]
    monkeypatch.setattr(own, "grpo_lesson", lambda row, groups, reward: [reward(each) for each in groups[0]])
    earned = {
        arm: simlib_claims._grpo(arm, None, groups, np.random.default_rng(2))
        for arm in ("grpo", "grpo-no-mode", "grpo-evidence")
    }
    assert earned["grpo"] == [1.0] * 4
    assert earned["grpo-no-mode"] == [0.7] * 4
    assert earned["grpo-evidence"] == pytest.approx([1.05, 1.25, 1.45, 1.05])
    # What is paid is the evidence of the group. A reply that is drawn twice gets the same twice, and over
    # many draws each gets the mean, whatever its own evidence.
    rng = np.random.default_rng(0)
    drawn = [simlib_claims._grpo("grpo-random-evidence", None, groups, rng) for _ in range(2000)]
    for at_random in drawn:
        assert sorted(at_random[:3]) == pytest.approx([1.05, 1.25, 1.45])
        assert at_random[3] == at_random[0]
    assert np.mean(drawn, axis=0) == pytest.approx([1.25] * 4, abs=0.02)


Tried = tuple[str, str, float]
"""Status, letter and confidence of a program."""


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [
        (("ok", "A", 0.9), ("ok", "B", 0.9), {"first", "final"}),
        (("ok", "B", 0.5), ("ok", "A", 0.6), {"final", "second", "final_of_unsure"}),
        (
            ("ok", "A", 0.5),
            ("failed", None, 0.0),
            {"first", "final", "second", "first_of_unsure", "final_of_unsure"},
        ),
        (("ok", "A", 0.5), ("ok", "B", 0.4), {"first", "first_of_unsure"}),
        (("failed", None, 0.0), ("ok", "A", 0.5), {"final", "second"}),
        (("failed", None, 0.0), ("failed", None, 0.0), set()),
    ],
)
def test_what_counts_after_refinement(first: Tried, second: Tried, right: set[str]) -> None:
    """With A right: a refined answer counts where the first was unsure or failed, if it is one."""
    tried = [
        SimpleNamespace(status=status, answer=SimpleNamespace(letter=letter, confidence=confidence))
        for status, letter, confidence in (first, second)
    ]
    ways = simlib_claims._ways(SimpleNamespace(answer="A"), *tried)
    assert {name for name, share in ways.items() if share} == right


def test_the_hypotheses_of_reads_are_compared_over_seeds() -> None:
    """Two seeds: curriculum 90 and 80 % on both, renamed 70 and 70."""

    def found(both: float) -> dict[str, object]:
        return {test: {"same": both if test == "both" else 0.5} for test in TESTS}

    shares = {"curriculum": (0.9, 0.8), "renamed": (0.7, 0.7)}
    cells = {
        f"{arm}/{seed}/0.5/9": {"val": found(share)}
        for arm, each in shares.items()
        for seed, share in enumerate(each)
    }
    # Of another number of steps, with one seed.
    cells |= {f"{arm}/0/0.5/5": {"val": found(0.1)} for arm in shares}
    compared = simlib.differences(cells)["val"]
    assert compared["curriculum over renamed, both, 0.5, 9"]["difference"] == 0.15
    assert compared["curriculum, wordings over both, 0.5, 9"]["difference"] == -0.35
    assert compared["curriculum over renamed, fixed, 0.5, 9"]["p"] is None


def test_arms_that_leave_a_kind_out_have_as_many_rows_or_tokens() -> None:
    # Ten times three rows of R1 and one of each other kind; replies of 1, 2, 3 and 4 tokens. Without R1 there
    # are 30 rows.
    kinds = [1, 1, 1, 2, 3, 4] * 10
    rows = [(f"R{kind}", Lesson([[number]], [[6]], [[7] * kind])) for number, kind in enumerate(kinds)]
    start = simlib_claims.chosen(rows, "start")
    assert len(start) == 30
    wanted = sum(len(each.replies[0]) for each in start)
    for kind in range(1, 5):
        lessons = simlib_claims.chosen(rows, f"without-R{kind}")
        assert len(lessons) == 30
        of_tokens = simlib_claims.chosen(rows, f"tokens-without-R{kind}")
        assert wanted <= sum(map(simlib_claims.tokens, of_tokens)) < wanted + 4
        assert all(len(each.replies[0]) != kind for each in (*lessons, *of_tokens))
        # Nothing joins rows about other libraries: a batch ends with the row that fills it.
        feed = simlib_claims.batches(of_tokens, np.random.default_rng(0), simlib_claims.tokens, 12.0)
        assert all(12 <= sum(map(simlib_claims.tokens, next(feed))) < 12 + 4 for _ in range(3))
