"""The small world in which the tests of this folder synthesize."""

from pathlib import Path

import pytest

from tests.support.synthesis import made, own_world, root, stub

__all__ = ["made", "own_world", "root", "stub"]


@pytest.fixture
def pocket_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One for all tests of the process: to make the questions of a split takes seconds."""
    folder: Path = tmp_path_factory.getbasetemp() / "pocket-cache"
    monkeypatch.setenv("VIDEOPRO_CACHE", str(folder))
