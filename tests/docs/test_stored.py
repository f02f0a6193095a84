"""What is counted of stored runs, against what `videopro seeds` wrote of the same runs. Beside
test_statements.py, which counts the same: runs that a process has read are kept."""

import pytest

from perf.stored import counted, pairs, refinements, row


def test_pairs_of_trainings_are_those_that_seeds_compared() -> None:
    baselines = {"sft": "first", "own 1": "first-against-own-round-1", "own 2": "first-against-own"}
    compared = [pair for pair in pairs("first", "pocket-grpo") if pair["pair"][1] in baselines]
    assert len(compared) == 10
    for pair in compared:
        name = pair["way"] if pair["way"].startswith("SFT on 60") else f"+ {pair['way']}"
        recorded = row(f"pocket-grpo/{baselines[pair['pair'][1]]}", name)
        assert pair["gap"] == pytest.approx(recorded["difference"])
        assert pair["seeds"] == pytest.approx(recorded["difference_seeds"])
        assert pair["ci95"] == pytest.approx(recorded["difference_seeds_ci95"])
        # An interval of 95 % without 0 is a p below 0.05.
        low, high = recorded["difference_seeds_ci95"]
        assert (pair["p"] < 0.05) == (low > 0 or high < 0)
        assert pair["p"] <= pair["corrected"]


def test_refinements_lead_from_the_first_answers_to_the_last() -> None:
    found = {numbers["name"]: numbers for numbers in refinements()}
    for name, file, recorded in (
        ("SFT on 60 questions", "pocket-grpo/last", "SFT on 60 questions"),
        ("GRPO, two rounds (80 steps)", "pocket-grpo/last", "+ GRPO, two rounds (80 steps)"),
        ("SFT + GRPO", "pocket-grpo-240/last", "SFT + GRPO"),
        ("fine-tuned planner, test, three seeds", "pocket-sft/test", "adaptive + refinement"),
        ("the same, in other words", "pocket-sft/heldout", "adaptive + refinement"),
    ):
        rules = row(file, recorded)["rules"]
        assert found[name]["first"] == pytest.approx(rules["first"]["accuracy"])
        assert found[name]["first"] + found[name]["gain"] == pytest.approx(rules["last"]["accuracy"])
    for world, last in (("test", "pocket-test/last"), ("fresh world", "pocket-fresh/last")):
        parts = [found[f"teacher, {world}, {broken} put in at first"] for broken in ("a fault", "none")]
        assert sum(part["questions"] for part in parts) == row(last, "videopro")["questions"]
        right = sum(part["questions"] * (part["first"] + part["gain"]) for part in parts)
        assert right == pytest.approx(726 * row(last, "videopro")["accuracy"])


def test_all_families_together_are_native() -> None:
    for world in ("test", "fresh"):
        together = next(numbers for numbers in counted(world) if numbers["family"] == "all")
        assert together["questions"] == 726
        assert together["native"] == pytest.approx(row(f"pocket-{world}/last", "native")["accuracy"])
