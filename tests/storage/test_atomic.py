"""Files that are written completely or not at all, also by several writers at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from videopro.storage import write_atomically


def test_two_writers_of_a_shared_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two runs that index the same video at the same time: the second is done while the first writes."""
    path, sync, others = tmp_path / "cost.json", os.fsync, iter(["from another"])

    def written_meanwhile(file: int) -> None:
        sync(file)
        for text in others:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(write_atomically, path, text, shared=True).result()
            assert path.read_text() == text

    monkeypatch.setattr(os, "fsync", written_meanwhile)
    write_atomically(path, "from the first", shared=True)
    assert path.read_text() == "from the first"
    assert [file.name for file in tmp_path.iterdir()] == ["cost.json"]
