"""Runs are found at a path or below it."""

from pathlib import Path

import pytest

from videopro.errors import RunError
from videopro.runs import find_runs


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names or ("config.yaml", "traces.jsonl"):
        (folder / name).touch()
    return folder


def test_runs_are_found_once_and_in_order_but_not_inside_runs(tmp_path: Path) -> None:
    b, a = make(tmp_path / "runs" / "b"), make(tmp_path / "runs" / "deep" / "a")
    make(b / "view" / "copy")
    make(tmp_path / "runs" / "trained", "config.yaml")
    new = make(tmp_path / "new", "config.yaml")  # before its first answer
    assert find_runs([tmp_path / "runs"]) == [b, a]
    assert find_runs([new, a, tmp_path / "runs"]) == [new, a, b]


def test_a_path_without_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, why in (("empty", "contains no run; pass"), ("nowhere", "no such folder")):
        with pytest.raises(RunError, match=rf"{tmp_path}/{name}: .*{why}"):
            find_runs([tmp_path / name])
