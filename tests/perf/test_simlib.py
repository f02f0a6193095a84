"""The cells of the experiments on simlib: finished ones are kept, and a world is opened for trained
decoders."""

import json
from pathlib import Path

import pytest

from perf import simlib
from videopro.simlib import TESTS, train


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

    def run(arms: tuple[str, ...], world: str = "val") -> dict[str, dict[str, object]]:
        simlib.work(simlib.SimlibSettings(arms=arms, steps=2, world=world, output=output))
        return json.loads(output.read_text())["reads"]

    first = run(("fixed",))
    assert set(first["fixed/0/0.5/2"]["val"]) == {*TESTS}
    both = run(("fixed", "dropped"))
    assert trained == ["fixed", "dropped"]
    assert both["fixed/0/0.5/2"] == first["fixed/0/0.5/2"]
    opened = run(("fixed",), "test")
    assert trained == ["fixed", "dropped"]
    assert set(opened["fixed/0/0.5/2"]["test"]) == {*TESTS}
    assert "test" not in opened["dropped/0/0.5/2"]
