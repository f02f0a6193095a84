"""A browser, the pages of a run with everything in it, and pages opened in the browser from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support import view_world as world
from tests.support.agent_traces import DURATION
from tests.support.browser import Open, browser
from tests.support.making_videos import make
from videopro.commands.view import main
from videopro.traces import VideoRef

__all__ = ["browser"]


@pytest.fixture(scope="session")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of two runs: programs and agents in one, two questions in the other."""
    root = tmp_path_factory.mktemp("pages")
    film = root / "steps & more #1.mp4"
    make(film, int(DURATION * 2) + 1, rate=2)
    video = VideoRef(str(film), "numbers", "", DURATION)
    of_agents = [*agents.traces(video), agents.hostile(video), agents.long(video)]
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
    """Opens a page of the site, or of another one. Whatever goes wrong in it, and whatever it asks for
    outside its folder, fails the test, but for films, which are played from where they are."""
    wrong: list[str] = []
    contexts = []

    def open_page(hash: str = "", *, folder: Path = site, wrong_is_fine: bool = False, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # Other processes may share the cores.
        page.requested, page.films = [], []
        if not wrong_is_fine:
            page.on("pageerror", lambda error: wrong.append(str(error)))

        def note(request: Any) -> None:
            asked = page.films if request.resource_type == "media" else page.requested
            asked.append(request.url.removeprefix(folder.as_uri() + "/"))

        page.on("request", note)
        page.goto(f"{folder.as_uri()}/index.html{hash}")
        page.wait_for_selector("main.list, main.question, main.runs, main > .empty:not(:text('Reading'))")
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            wrong += [url for url in page.requested if "://" in url]
        context.close()
    assert wrong == []
