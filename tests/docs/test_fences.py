"""README, the ten pages and the Python API: every command and Python snippet runs as it stands, after
installation, in an empty folder. What needs more says so above its fence: `<!-- needs: a GPU -->`."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs" / "reference" / "api.md"]
NEEDS = {
    *("a GPU", "the hub", "a server", "your data", "a clone", "the run above", "hours", "Docker"),
    "a screen",  # it goes on until somebody ends it
}
# Between them may stand the name by which another test finds it.
_FENCE = re.compile(
    r"(?:^ *<!-- needs: ([^>]+?) -->\n(?:^<!-- \w+: \w+ -->\n)?)?^ *```(bash|python)\n(.*?)^ *```",
    re.M | re.S,
)


class Fence(NamedTuple):
    """A fenced block: what it needs besides an installed package, "" for nothing."""

    needs: str
    language: str
    text: str


def fences(page: Path) -> list[Fence]:
    return [Fence(*found) for found in _FENCE.findall(page.read_text(encoding="utf-8"))]


def test_what_a_fence_needs_is_one_of_a_few_words() -> None:
    named = {(page.name, fence.needs) for page in PAGES for fence in fences(page) if fence.needs}
    assert {each for each in named if each[1] not in NEEDS} == set()
    assert sum(not fence.needs for page in PAGES for fence in fences(page)) >= 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_compile(page: Path) -> None:
    for fence in fences(page):
        if fence.language == "python":
            compile(fence.text, page.name, "exec")


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    """Its blocks share the folder, as a reader's would."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for number, fence in enumerate(each for each in fences(page) if not each.needs):
        # One that is a file says which.
        named = re.match(r"# (\w+\.py)\n", fence.text)
        script = tmp_path / (named[1] if named else f"block{number}")
        script.write_text(fence.text, encoding="utf-8")
        runner = ["bash", "-eu"] if fence.language == "bash" else [sys.executable]
        done = subprocess.run(
            [*runner, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{fence.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
