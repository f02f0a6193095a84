"""A browser, and pages opened in it from the folder that a test file's fixture `site` makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Open, browser

__all__ = ["browser"]


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
        page.requested = []
        if not wrong_is_fine:
            page.on("pageerror", lambda error: wrong.append(str(error)))
        page.films = []

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
