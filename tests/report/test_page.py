"""The report's page in a browser: it follows the system's theme, and nothing is cut at any width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import CHROMIUM, needs_browser
from tests.support.report_world import answers, planned_run, write_run
from videopro.commands.report import main

pytestmark = needs_browser

WHITE, DARK = "rgb(255, 255, 255)", "rgb(22, 25, 29)"
_CUT = """() => [...document.querySelectorAll("table, img")].filter(part => {
    const box = part.closest(".wide").getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth;
}).length"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("report")
    runs = [write_run(folder / "native", answers("ABBA")), planned_run(folder / "v", refine_below=0.9)]
    assert main([*map(str, runs), "--output", str(folder / "report")]) == 0
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not run as root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = browser.new_page()
        found.set_default_timeout(60_000)  # Other processes may share the cores.
        found.goto(Path(folder / "report" / "report.html").as_uri())
        yield found
        browser.close()


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize(("system", "shown", "other"), [("light", WHITE, DARK), ("dark", DARK, WHITE)])
def test_the_theme_is_the_systems_until_it_is_switched(
    page: Any, system: str, shown: str, other: str
) -> None:
    page.emulate_media(color_scheme=system)
    assert background(page) == shown
    page.check("#theme")
    assert background(page) == other
    page.uncheck("#theme")


@pytest.mark.parametrize("width", [1440, 390])
def test_wide_tables_and_figures_scroll_in_their_own_boxes(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelectorAll('table, img').length") > 10
    assert page.evaluate(_CUT) == 0


def test_bars_of_few_answers_are_named_in_the_caption(page: Any) -> None:
    caption = page.inner_text("#confidence figcaption")
    assert "Faint bars and hollow points: fewer than five answers." in caption
    assert "4 questions about 2 videos." in caption
