"""The budget of code, which the first tier keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch import code_budget
from tests.support import ROOT

PARTS = '''"""A docstring
of two lines."""

import os  # an import

# A comment.


def name() -> str:
    """What it is called."""
    text = """a text
    of two lines"""
    return (
        text
    )


class Kind:
    size: int = 0
    """How large, in bytes."""
'''


def test_every_room_is_within_its_budget() -> None:
    found, allowed = code_budget.rooms(ROOT), code_budget.budget(ROOT)
    assert {room: lines for room, lines in found.items() if lines > allowed.get(room, 0)} == {}
    assert allowed.keys() == found.keys(), "no budget for a room that went"


def test_code_is_what_is_neither_blank_nor_comment_docstring_or_import() -> None:
    assert code_budget.code_lines(PARTS) == 8


def test_a_room_over_its_budget_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in ("videopro/serve/app.py", "videopro/startup.py", "modules/calls/handles.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("a = 1\nb = 2\n")
    (tmp_path / "videopro" / "modules").symlink_to("../modules")
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.videopro.code-budget]\n"videopro" = 2\n"videopro/serve" = 1\n\n[tool.ruff]\n')
    assert code_budget.main(tmp_path) == 1
    assert capsys.readouterr().err.startswith("error: modules, videopro/serve: more code than the budget")
    assert code_budget.main(tmp_path, write=True) == 0
    assert code_budget.budget(tmp_path) == {"modules": 2, "videopro": 2, "videopro/serve": 2}
    assert project.read_text().endswith("\n\n[tool.ruff]\n")
