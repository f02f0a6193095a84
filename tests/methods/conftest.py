"""Each test of a method computes by itself: with empty caches, and no proxy before its servers."""

from pathlib import Path

import pytest

from videopro.modules import library
from videopro.modules.calls import CallCache


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_cache", CallCache())
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
