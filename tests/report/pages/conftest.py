"""A browser, the pages of a run with everything in it, and pages opened in the browser from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support import view_world as world
from tests.support.agent_traces import DURATION
from tests.support.browser import Open, browser, opening
from tests.support.making_videos import make
from videopro.commands.view import main
from videopro.traces import VideoRef

__all__ = ["browser"]


@pytest.fixture(scope="session")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of two runs: programs and agents in one, two questions in the other."""
    root = tmp_path_factory.mktemp("pages")
    file = root / "steps & more #1.mp4"
    make(file, int(DURATION * 2) + 1, rate=2)
    video = VideoRef(str(file), "numbers", "", DURATION)
    of_agents = [*agents.traces(video), agents.hostile(video)]
    some = [*world.traces(root / "videos"), *of_agents]
    world.write_run(root / "runs" / "all", some, method="vca")
    world.write_run(root / "runs" / "few", some[:2])
    assert main([str(root / "runs")]) == 0
    return root / "runs" / "view"


@pytest.fixture(scope="module")
def site(overview: Path) -> Path:
    """The pages of the first run; a test file may have others."""
    return overview / "runs" / "all"


@pytest.fixture
def open_page(site: Path, browser: Any) -> Iterator[Open]:
    """Opens a page of the site, or of another one."""
    with opening(browser, 1280) as opened:

        def open_page(hash: str = "", *, folder: Path = site, **options: Any) -> Any:
            return opened(folder.as_uri() + "/", f"index.html{hash}", **options)

        yield open_page
