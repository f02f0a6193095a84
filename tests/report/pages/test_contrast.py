"""Every text of the pages is at least 4.5:1 against what lies behind it, in both themes (WCAG 2, AA)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support import view_world as world
from tests.support.agent_steps import DURATION
from tests.support.browser import Open, needs_browser
from tests.support.contrast import ratio, texts_of
from tests.support.making_videos import make
from videopro.commands.view import main
from videopro.traces import VideoRef

pytestmark = needs_browser
LEAST = 4.5
# Under the pointer these look different.
HOVERED = (
    ".row", "button.value", ".segments button", ".line.called", "button.quiet", ".round summary", ".back",
    ".lane .jump", ".bar-part", ".legend-button", "select.theme", ".copy",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs and agents in one run, and that run beside another."""
    root = tmp_path_factory.mktemp("contrast")
    make(root / "numbers.mp4", int(DURATION * 2) + 1, rate=2)
    video = VideoRef(str(root / "numbers.mp4"), "numbers", "", DURATION)
    some = [*world.traces(root / "videos"), *agents.traces(video)]
    world.write_run(root / "runs" / "all", some)
    world.write_run(root / "runs" / "few", some[:2])
    assert main([str(root / "runs")]) == 0
    return root / "runs" / "view"


def test_the_ratio_is_that_of_wcag() -> None:
    # Known pairs: black on white is 21, and #767676 the lightest grey that passes on white, with 4.54.
    assert ratio([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]) == pytest.approx(21)
    grey = [0x76 / 255] * 3
    assert ratio(grey, [1.0, 1.0, 1.0]) == pytest.approx(4.54, abs=0.005)
    assert ratio([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]) == pytest.approx(4.00, abs=0.005)


def test_a_faint_text_is_found(open_page: Open, site: Path) -> None:
    page = open_page("", folder=site / "runs" / "all", color_scheme="light")
    page.add_style_tag(content=".row b { color: #8d877e } .row .sub { opacity: 0.3 }")
    faint = {text["kind"] for text in texts_of(page) if not text["ratio"] >= LEAST}
    assert faint == {"b", "sub"}


def themes(page: Any) -> Iterator[str]:
    """Puts the page into each theme."""
    for theme in ("light", "dark"):
        page.select_option("select.theme", theme)
        yield theme


def check(page: Any, selector: str = "html", least: int = 1) -> None:
    for theme in themes(page):
        check_theme(page, theme, selector, least)


def check_theme(page: Any, theme: str, selector: str, least: int) -> None:
    texts = texts_of(page, selector)
    assert len(texts) >= least, selector
    # A text over a picture has no ratio, which is no number and fails here, too.
    assert [text for text in texts if not text["ratio"] >= LEAST] == [], theme


def check_hovered(page: Any) -> None:
    shown = [selector for selector in HOVERED if page.locator(selector).first.is_visible()]
    for theme in themes(page):
        for selector in shown:
            page.locator(selector).first.hover(force=True)
            check_theme(page, theme, selector, 1)
    page.mouse.move(0, 0)


@pytest.mark.parametrize(
    "query", ["", "result=right", "result=wrong", "result=none&mode=native", "mark=refined"]
)
def test_the_list(open_page: Open, site: Path, query: str) -> None:
    page = open_page(f"#/?{query}", folder=site / "runs" / "all")
    check(page, least=40)


def test_the_list_under_the_pointer_and_its_legend(open_page: Open, site: Path) -> None:
    page = open_page("", folder=site / "runs" / "all")
    check_hovered(page)
    page.fill("#search", "shown")
    check(page, "aside", least=10)
    page.click(".legend-button")
    for theme in ("light", "dark"):
        # The theme's field lies outside the legend, and a click there would close it.
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        check_theme(page, theme, ".legend", 40)


@pytest.mark.parametrize("id", ["refined", "wrong", "missing", "vca", "lvagent", "dvd", "unparsed"])
def test_a_question(open_page: Open, site: Path, id: str) -> None:
    page = open_page(f"#/q/{id}", folder=site / "runs" / "all")
    for summary in page.locator("summary").all():
        summary.click()
    page.wait_for_selector(".json pre")
    check(page, least=20)
    # In full, and without what the refinement removed.
    page.evaluate("document.querySelectorAll('.call').forEach(one => one.classList.add('open'))")
    page.evaluate("document.querySelectorAll('.toggle input').forEach(one => one.click())")
    check(page, least=20)
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("VIEW.toggleLegend()")
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        check_theme(page, theme, ".legend", 20)


@pytest.mark.parametrize("id", ["refined", "vca"])
def test_a_question_under_the_pointer(open_page: Open, site: Path, id: str) -> None:
    check_hovered(open_page(f"#/q/{id}", folder=site / "runs" / "all"))


def test_a_failed_program_and_its_texts(open_page: Open, site: Path) -> None:
    page = open_page("#/?mark=failed", folder=site / "runs" / "all")
    page.click(".row")
    page.wait_for_selector(".line.fault")
    check(page, least=20)


def test_a_large_frame_and_its_labels(open_page: Open, site: Path) -> None:
    page = open_page("#/q/refined", folder=site / "runs" / "all")
    page.click("[data-round='2'] [data-line='6'] .call:has(.box) button.open")
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        check_theme(page, theme, ".lightbox", 5)


def test_the_list_of_runs(open_page: Open) -> None:
    page = open_page("")
    check(page, least=16)
    page.hover("a.link")
    check_theme(page, "dark", "a.link", 1)
