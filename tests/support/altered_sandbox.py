"""A sandbox whose inner side is altered in one place, to test that the self-test notices."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro.executor import process


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Call it with a file of videopro/executor/inside, a text that stands there once, and another: executors
    that start after this use a copy of the folder with that change, and with earlier ones."""

    def alter(name: str, old: str, new: str) -> None:
        if not (tmp_path / "inside").exists():
            shutil.copytree(ROOT / "videopro/executor/inside", tmp_path / "inside")
        path = tmp_path / "inside" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.setattr(process, "_HERE", tmp_path)

    return alter
