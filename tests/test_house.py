"""How the code is built stays within limits (docs/architecture.md), and perf/house.py counts it right."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.house import arrows, comment_lines, floors, function_lengths, settings
from tests.support import ROOT
from videopro.errors import ConfigError

MOST_ROOMS = 21
MOST_FLOORS = 10
# python -m perf.house --arrows lists all. That there is no circle, lint-imports sees.
MOST_ARROWS = 137


def test_the_rooms_of_the_house_stay_few_and_in_order() -> None:
    counted = arrows(ROOT)
    assert 10 <= len({room for pair in counted for room in pair}) <= MOST_ROOMS
    assert 5 <= len(floors(counted)) <= MOST_FLOORS, floors(counted)
    assert 30 <= len(counted) <= MOST_ARROWS


def test_an_arrow_is_an_import_between_rooms(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "__init__.py").write_text("def f():\n    from videopro.errors import Error\n")
    files = {
        "__init__.py": "",
        "__main__.py": "import videopro.commands.ask\n",
        "errors.py": "class Error(Exception):\n    pass\n",
        "commands/__init__.py": "",
        "commands/ask.py": "from ..errors import Error\nfrom . import table\nimport videopro.modules\n",
        "commands/table.py": "import typing\nif typing.TYPE_CHECKING:\n    from videopro import modules\n",
    }
    for name, text in files.items():
        path = tmp_path / "videopro" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "videopro" / "modules").symlink_to("../modules")
    counted = arrows(tmp_path)
    assert counted == {
        ("videopro.commands", "videopro.errors"): [("videopro.commands.ask", "videopro.errors")],
        ("videopro.commands", "videopro.modules"): [
            ("videopro.commands.ask", "videopro.modules"),
            ("videopro.commands.table", "videopro.modules"),
        ],
        ("videopro.modules", "videopro.errors"): [("videopro.modules", "videopro.errors")],
    }
    assert floors(counted) == [["videopro.commands"], ["videopro.modules"], ["videopro.errors"]]
    with pytest.raises(ConfigError, match="has no folder videopro"):
        arrows(tmp_path / "modules")


TEXT = '''"""A file."""

# Why.
FOUND = "# no comment"  # beside code


class Given:
    frames: int = field(default=1, metadata=setting("frames"))
    pixels: int = option(2, "pixels")
    own: int = 2
    fixed: int = field(default=3, metadata=constant("a fact"))

    def shown_frames(self, *rows):
        with open(rows[0]) as lines:
            self.kept = list(lines)
        return rows


class BackboneConfig:
    model: str
    dtype: str
'''


def test_comments_functions_and_settings_are_counted() -> None:
    assert comment_lines(TEXT) == 1
    assert function_lengths({"a.py": TEXT}) == (4, 4, "a.py: shown_frames")
    assert settings(TEXT) == ["Given.frames", "Given.pixels", "BackboneConfig.dtype"]
