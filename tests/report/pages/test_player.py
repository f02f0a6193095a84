"""The film beside the strip, in a real browser: what a click takes it to is read from its own pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import view_world as world
from tests.support.browser import Open, needs_browser, shown_number
from videopro.commands.view import main
from videopro.traces import VideoRef

pytestmark = needs_browser
PLAYED = "[...document.querySelectorAll('video')].some(one => !one.paused)"


def shown(page: Any) -> int:
    """The number of the picture at which the film stands."""
    page.wait_for_function("(one => one.readyState >= 2 && !one.seeking)(document.querySelector('video'))")
    page.evaluate("document.querySelector('video').controls = false")
    page.add_style_tag(content=".player { border-radius: 0 !important } .player .shut { visibility: hidden }")
    return shown_number(page.locator("video"))


def at(page: Any) -> float:
    page.wait_for_function("!document.querySelector('video').seeking")
    return float(page.evaluate("document.querySelector('video').currentTime"))


def test_a_link_names_a_question_and_a_time(open_page: Open) -> None:
    page = open_page("#/q/refined?result=right&t=2.25")
    assert shown(page) == 9
    assert not page.evaluate(PLAYED), "no page plays by itself"
    assert page.films == [page.evaluate("document.querySelector('video').src")]
    # Another time of the same question: the page stays as it is.
    page.evaluate("document.querySelector('.round').dataset.same = 'yes'")
    page.evaluate("location.hash = '#/q/refined?result=right&t=15'")
    page.wait_for_function("document.querySelector('video').currentTime > 14")
    assert shown(page) == 60
    assert page.locator("[data-same]").count() == 1
    assert open_page("#/q/refined?t=never").locator("video").evaluate("one => one.currentTime") == 0


@pytest.mark.parametrize(
    ("place", "least"),
    [
        ("[data-round='1'] [data-line='4'] figcaption a >> nth=3", 2.75),
        ("[data-round='1'] [data-line='2'] .signature a.play", 4.0),
        ("[data-round='2'] [data-line='8'] .said p span", 2.0),
        ("[data-round='2'] [data-line='8'] .said time a", 2.0),
    ],
)
def test_a_click_plays_from_there_and_the_address_says_so(open_page: Open, place: str, least: float) -> None:
    page = open_page("#/q/refined?mark=refined", viewport={"width": 1440, "height": 400})
    page.locator(place).click()
    page.wait_for_function(PLAYED)
    assert least <= at(page) < least + 3
    if " a" in place:
        assert page.url.endswith(f"#/q/refined?mark=refined&t={least:g}")
    page.wait_for_selector(".player.afloat")  # The film comes to the reader.
    page.click(".player .shut")
    assert not page.evaluate(PLAYED)
    page.keyboard.press("Escape")
    page.wait_for_selector(".row")
    assert page.url.endswith("#/?mark=refined")


def test_a_click_on_a_call_or_on_the_axis_takes_the_film_there(open_page: Open) -> None:
    page = open_page("#/q/refined")
    page.click("[data-round='1'] [data-line='2'] .signature .args")
    assert at(page) == pytest.approx(4.0, abs=0.01)
    lane = page.locator(".lane.evidence .track")
    box = lane.bounding_box()
    lane.click(position={"x": box["width"] * 0.75, "y": 8})
    assert at(page) == pytest.approx(15.0, abs=0.1)
    head = page.locator(".playhead")
    head.wait_for()
    middle = head.bounding_box()["x"] + 1
    assert (middle - box["x"]) / box["width"] == pytest.approx(0.75, abs=0.01)
    assert not page.evaluate(PLAYED)


def test_a_film_that_cannot_be_played_is_one_line(open_page: Open, tmp_path: Path) -> None:
    """Without pictures, whose absence has a line of its own."""
    right, _, _, unread, *_ = world.traces(tmp_path / "videos")
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    video = VideoRef(str(tmp_path / "broken.mp4"), "broken", "", 9.0)
    run = world.write_run(tmp_path / "run", [unread, replace(right, question_id="broken", video=video)])
    assert main([str(run.path), "--no-pictures"]) == 0
    for id, line in (("unread", "its file is not there ("), ("broken", "it was moved, or this browser does")):
        page = open_page(f"#/q/{id}", folder=run.path / "view")
        page.wait_for_selector(".no-film:visible")
        assert page.inner_text(".no-film").startswith(f"The film cannot be played: {line}")
        assert page.locator("video").count() == 0
        assert page.locator("a.moment[href]").count() == 0
        page.keyboard.press("p")
        page.click(".signature")
        assert page.locator(".call.open").count() == 1
        page.keyboard.press("Escape")
        page.wait_for_selector(".row")


def test_the_film_that_the_run_did_not_see_is_not_offered(open_page: Open, tmp_path: Path) -> None:
    trace = world.traces(tmp_path / "videos")[0]
    other = replace(trace, video=replace(trace.video, id="of another file"))
    run = world.write_run(tmp_path / "run", [other])
    assert main([str(run.path)]) == 0
    page = open_page("#/q/right", folder=run.path / "view")
    assert "is not the file that the run used" in page.inner_text(".note.missing")
    assert page.locator("video").count() == 0
    assert page.films == []
