"""The client that docs/mcp.md shows, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro.backbones import find_video

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")


def block(title: str, language: str) -> str:
    found = re.search(rf"<!-- {title}: client -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.long
def test_the_client_of_the_page_prints_what_stands_there(tmp_path: Path) -> None:
    film = find_video(Path("pocket:test/long_013"))
    client = tmp_path / "client.py"
    client.write_text(block("snippet", "python"))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # Its index is built anew.
        "VIDEOPRO_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, str(client), str(film.parent)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("printed", "text")
