"""Files of settings that are no YAML, or have odd values."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.cli import parse_yaml, read_yaml
from videopro.commands.infer import main as infer


@pytest.mark.parametrize(
    ("text", "where"),
    [("a: [1,\nb: {c\n", "line 3, column 1: "), ("a: b: c\n", "line 1, column 5: "), ("a: \x07\n", "")],
)
def test_broken_yaml_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, where: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    assert infer(["--config", str(path), "--model", "m", "--output", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: {path}: is not valid YAML: {where}")
    assert line.count("\n") == 1


def test_aliases_that_save_words_are_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("base: &base {a: 1, b: [x, y]}\nother: {<<: *base, a: 2}\nlist: [*base, *base]\n")
    base = {"a": 1, "b": ["x", "y"]}
    assert read_yaml(path) == {"base": base, "other": {**base, "a": 2}, "list": [base, base]}
    # What is written out is read, however long.
    assert parse_yaml("[" + "x" * 7_000_000 + "]") == ["x" * 7_000_000]
    assert parse_yaml("") is None


def test_a_wrong_value_is_shown_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"benchmark: [{', '.join(['x'] * 10_000)}]\n")
    assert infer(["--config", str(path), "--model", "m", "--output", str(tmp_path / "run")]) == 2
    assert len(capsys.readouterr().err) < 500
