"""Runs are found at a path or below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.errors import RunError
from videopro.runs import find_runs


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names or ("config.yaml", "traces.jsonl"):
        (folder / name).touch()
    return folder


def test_a_run_stands_for_itself_also_before_its_first_answer(tmp_path: Path) -> None:
    new = make(tmp_path / "new", "config.yaml")
    done = make(tmp_path / "done")
    assert find_runs([new, done]) == [new, done]


def test_runs_inside_a_folder_are_found_in_order_but_not_inside_runs(tmp_path: Path) -> None:
    b = make(tmp_path / "runs" / "b")
    a = make(tmp_path / "runs" / "deep" / "a")
    make(b / "view" / "copy")
    make(tmp_path / "runs" / "trained", "config.yaml")
    assert find_runs([tmp_path / "runs"]) == [b, a]


def test_a_run_given_twice_is_found_once(tmp_path: Path) -> None:
    first, second = make(tmp_path / "runs" / "first"), make(tmp_path / "runs" / "second")
    assert find_runs([second, tmp_path / "runs"]) == [second, first]


@pytest.mark.parametrize(("name", "why"), [("empty", "contains no run; give"), ("nowhere", "no such folder")])
def test_a_path_without_a_run_is_named(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=why) as caught:
        find_runs([tmp_path / name])
    assert str(tmp_path / name) in str(caught.value)
