"""YAML whose aliases stand for more than memory holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.cli import parse_yaml, read_yaml
from videopro.commands.infer import main as infer


def bomb(first: str, again: str, levels: int, key: str = "options") -> str:
    """Ten aliases of ten aliases ..., of `first`; `again` makes a level from aliases of the one below."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{i}: &a{i} {again.replace('*', f'*a{i - 1}')}" for i in range(1, levels)]
    return "\n".join([*lines, f"{key}: *a{levels - 1}"])


LIST = "[" + ",".join("*" * 10) + "]"
# The last one is small but for the texts: 10 x 10 x 10 x 100,000 characters.
BOMBS = {
    "lists": bomb("[" + ",".join("x" * 10) + "]", LIST, 9),
    "mappings": bomb("{x: y}", "{" + ",".join(f"k{i}: *" for i in range(10)) + "}", 9),
    "merged": bomb("{x: y}", "{<<: " + LIST + "}", 9),
    "texts": bomb("x" * 100_000, LIST, 4),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMBS[kind])
    words = ["--benchmark", "pocket", "--model", "m", "--output", str(tmp_path / "run")]
    assert infer(["--config", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: is not valid YAML: its aliases (*NAME) stand for ")
    assert said.count("\n") == 1


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


def test_a_value_of_a_flag_is_bounded_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--benchmark", "pocket", "--model", "m", "--output", str(tmp_path / "run")]
    assert infer([*words, "--options", "x=&a [*a]"]) == 2
    assert "line 1: an alias (*NAME) contains itself" in capsys.readouterr().err


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
