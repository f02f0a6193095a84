"""A team from a library: native runs, pseudo-labels, the team file; resumed, and without any gold answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import ColourBackbone, check_complete, make_benchmark
from videopro.commands.select_agents import main

MARKS = {"good": (), "fair": ("(1)",), "poor": ("(0)", "(1)")}
"""Whose questions a model answers with the next option."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "colours"
    make_benchmark(folder)
    return folder


def load_one(model: str, **settings: Any) -> ColourBackbone:
    return ColourBackbone(model, moods=dict.fromkeys(MARKS[model], (1, 0.9)), **settings)


def choose(root: Path, output: Path, *more: str) -> int:
    flags = ["--library", *MARKS, "--benchmark", "jsonl", "--root", str(root), "--size", "2"]
    return main([*flags, "--output", str(output), *more], load=load_one)


def team(output: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((output / "team.json").read_text())
    return content


def test_those_that_agree_with_the_majority_are_the_team(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "team"
    assert choose(root, output) == 0
    found = team(output)
    # Of the questions (0), (1), (2) of four videos, "poor" misses (0) and (1), and "fair" misses (1) in the
    # same way: there the majority is wrong, and the one that is always right does not agree.
    agreed = {member["model"]: member["agreement"] for member in found["library"]}
    assert agreed == pytest.approx({"good": 2 / 3, "fair": 1.0, "poor": 2 / 3})
    assert found["agents"] == ["fair", "good"]
    assert (found["questions"], found["labelled"]) == (12, 12)
    # Four frames a video, and one call of 104 tokens for each question and model.
    cost = found["cost"]
    assert (cost["frames"], cost["calls"], cost["tokens_in"]) == pytest.approx((3 * 4 * 4, 36, 36 * 104))
    assert cost["seconds"] > 0
    for name in MARKS:
        check_complete(output / name)
    shown = capsys.readouterr().out
    assert "no gold answers were used" in " ".join(shown.split())
    assert str(output / "team.json") in shown.replace("\n", "")


def test_a_team_does_not_depend_on_the_gold_answers(root: Path, tmp_path: Path) -> None:
    outputs = (tmp_path / "right", tmp_path / "permuted")
    assert choose(root, outputs[0]) == 0
    path = root / "questions.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["answer"] = "BCDA"["ABCD".index(record["answer"])]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert choose(root, outputs[1]) == 0
    first, second = ((output / "team.json").read_bytes() for output in outputs)
    seconds = [json.dumps(team(output)["cost"]["seconds"]).encode() for output in outputs]
    assert first.replace(seconds[0], b"-") == second.replace(seconds[1], b"-")
    # The answers were scored by other gold answers, so the permutation did arrive.
    right = [json.loads((output / "good" / "summary.json").read_text())["accuracy"] for output in outputs]
    assert right[0] != right[1]


def test_a_second_command_asks_nothing_again(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "team"
    assert choose(root, output) == 0
    before = {name: (output / name / "traces.jsonl").read_bytes() for name in MARKS}
    first = (output / "team.json").read_bytes()
    assert choose(root, output) == 0
    assert {name: (output / name / "traces.jsonl").read_bytes() for name in MARKS} == before
    assert (output / "team.json").read_bytes() == first


def test_fewer_questions_of_a_larger_run_are_counted_alone(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "team"
    assert choose(root, output) == 0
    assert choose(root, output, "--questions", "1") == 0
    assert team(output)["questions"] == 1
    assert team(output)["cost"]["calls"] == pytest.approx(3)


def test_a_domain_has_a_team_of_its_own(root: Path, tmp_path: Path) -> None:
    assert choose(root, tmp_path / "odd", "--domain", "family=odd") == 0
    found = team(tmp_path / "odd")
    # Only the questions (1), where "good" is alone.
    assert (found["domain"], found["questions"], found["agents"]) == ("family=odd", 4, ["fair", "poor"])
