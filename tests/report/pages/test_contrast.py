"""Every text of the pages is at least 4.5:1 against what lies behind it, in both themes (WCAG 2, AA)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Open, needs_browser
from tests.support.contrast import ratio, texts_of

pytestmark = needs_browser
LEAST = 4.5
# Under the pointer these look different.
HOVERED = (
    ".row", "button.value", ".segments button", ".line.called", "button.quiet", ".round summary", ".back",
    ".lane .jump", ".bar-part", ".legend-button", "select.theme", ".copy",
)  # fmt: skip


def test_the_ratio_is_that_of_wcag() -> None:
    # Known pairs: black on white is 21, and #767676 the lightest grey that passes on white, with 4.54.
    assert ratio([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]) == pytest.approx(21)
    grey = [0x76 / 255] * 3
    assert ratio(grey, [1.0, 1.0, 1.0]) == pytest.approx(4.54, abs=0.005)
    assert ratio([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]) == pytest.approx(4.00, abs=0.005)


def test_a_faint_text_is_found(open_page: Open) -> None:
    page = open_page("", color_scheme="light")
    page.add_style_tag(content=".row b { color: #8d877e } .row .sub { opacity: 0.3 }")
    faint = {text["kind"] for text in texts_of(page) if not text["ratio"] >= LEAST}
    assert faint == {"b", "sub"}


def check(page: Any, selector: str = "html", least: int = 1) -> None:
    """In each theme. Its field lies outside a legend, and a click there would close it."""
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        texts = texts_of(page, selector)
        assert len(texts) >= least, selector
        # A text over a picture has no ratio, which is no number and fails here, too.
        assert [text for text in texts if not text["ratio"] >= LEAST] == [], theme


def check_hovered(page: Any) -> None:
    for selector in HOVERED:
        if page.locator(selector).first.is_visible():
            page.locator(selector).first.hover(force=True)
            check(page, selector)
    page.mouse.move(0, 0)


def test_the_list_its_filters_and_its_legend(open_page: Open) -> None:
    for query in ("", "result=right", "result=wrong", "result=none&mode=native", "mark=refined"):
        check(open_page(f"#/?{query}"), least=40)
    page = open_page("")
    check_hovered(page)
    page.fill("#search", "shown")
    check(page, "aside", least=10)
    page.click(".legend-button")
    check(page, ".legend", 40)


@pytest.mark.parametrize("id", ["refined", "wrong", "missing", "vca", "lvagent", "dvd", "unparsed", "failed"])
def test_a_question(open_page: Open, id: str) -> None:
    page = open_page(f"#/q/{id}")
    if id == "failed":  # A program that failed, not the agent.
        page = open_page("#/?mark=failed")
        page.click(".row")
        page.wait_for_selector(".line.fault")
    if id in ("refined", "vca"):
        check_hovered(page)
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
    check(page, ".legend", 20)


def test_a_large_frame_and_its_labels(open_page: Open) -> None:
    page = open_page("#/q/refined")
    page.click("[data-round='2'] [data-line='6'] .call:has(.box) button.open")
    check(page, ".lightbox", 5)


def test_the_list_of_runs(open_page: Open, overview: Path) -> None:
    page = open_page("", folder=overview)
    check(page, least=16)
    page.hover("a.link")
    check(page, "a.link")
