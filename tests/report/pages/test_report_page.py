"""The report's page in a browser: it follows the system's theme, and nothing is cut at any width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import needs_browser
from tests.support.report_world import answers, planned_run, write_run
from videopro.commands.report import main

pytestmark = needs_browser

_CUT = """() => [...document.querySelectorAll("table, img")].filter(part => {
    const box = part.closest(".wide").getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth;
}).length"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Any:
    folder: Path = tmp_path_factory.mktemp("report")
    runs = [write_run(folder / "native", answers("ABBA")), planned_run(folder / "v", refine_below=0.9)]
    assert main([*map(str, runs), "--output", str(folder / "report")]) == 0
    page = browser.new_page()
    page.set_default_timeout(60_000)  # Other processes may share the cores.
    page.goto((folder / "report" / "report.html").as_uri())
    return page


def test_the_theme_is_the_systems_until_it_is_switched(page: Any) -> None:
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}
    for system, other in (("light", "dark"), ("dark", "light")):
        page.emulate_media(color_scheme=system)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colours[system]
        page.check("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colours[other]
        page.uncheck("#theme")


@pytest.mark.parametrize("width", [1440, 390])
def test_wide_tables_and_figures_scroll_in_their_own_boxes(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelectorAll('table, img').length") > 10
    assert page.evaluate(_CUT) == 0
