"""The steps of agents in a real browser: the hand-made traces of `tests.support.agent_traces`, about a video
of their length whose pictures carry their own number."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support.agent_traces import DURATION
from tests.support.browser import Open, needs_browser, over, shown_number

pytestmark = needs_browser


def step(page: Any, number: int) -> Any:
    return page.locator(f"[data-step='{number}']")


def cells(place: Any) -> list[list[str]]:
    """The texts of a table."""
    return place.locator("tbody tr").evaluate_all(
        "all => all.map(row => [...row.children].map(one => one.innerText.trim()))"
    )


# ---- steps -----------------------------------------------------------------------------------------------


def test_each_step_shows_what_it_saw_and_what_came_back(open_page: Open) -> None:
    page = open_page("#/q/vca", device_scale_factor=2)
    kinds = page.locator("article.step").evaluate_all("all => all.map(one => one.dataset.kind)")
    assert kinds == ["reward", "explore", *["reward", "evict", "explore"] * 3]
    first = step(page, 1)
    # Six uniform frames: every 35.75 s, two pictures a second.
    seen = first.locator(".seen .picture")
    assert [shown_number(seen.nth(n)) for n in range(6)] == [71, 143, 214, 286, 357, 429]
    rows = cells(first)
    assert [row[0] for row in rows] == list("0123456")
    assert [row[2] for row in rows] == ["35", "40", "20", "75", "30", "10", "15"]
    assert "constrained" in first.inner_text()
    assert "reward" not in first.locator("details pre").first.inner_text(), "folded"
    first.locator("summary:text('Prompt')").click()
    assert "Score the parts for: What moves" in first.locator("details[open] pre").inner_text()
    assert step(page, 2).locator(".fields").inner_text().split() == ["segment", "3"]
    assert step(page, 11).locator("header .letter").inner_text() == "A"


def test_a_tools_call_has_arguments_and_result(open_page: Open) -> None:
    page = open_page("#/q/dvd")
    call = step(page, 3).locator(".calling").inner_text()
    assert call == "→ clip_search(query=a sign at a farm, top_k=5)"
    assert step(page, 1).locator(".words").inner_text() == "First an overview."
    search = step(page, 4)
    assert "clip_search(query=a sign at a farm, top_k=5)" in search.locator("header").inner_text()
    assert cells(search)[0][::2] == ["0:55 – 1:00", "a yellow box circles at a farm"]
    search.locator("summary:text('Result shown to the agent')").click()
    assert "[165 s] a castle" in search.locator("details[open] pre").inner_text()
    assert "300 to 310 s is outside the video" in step(page, 6).locator(".words.bad").inner_text()


def test_what_could_not_be_parsed_is_shown_with_its_faults(open_page: Open) -> None:
    page = open_page("#/q/unparsed")
    last = step(page, 12)
    problem = last.locator(".problem").inner_text()
    assert "Could not be parsed, even after a repair: not valid JSON" in problem
    assert "The answer is the ball, I am sure: {final_answer" in problem
    last.locator("summary:text('Rejected reply: there is no JSON object')").click()
    assert last.locator("details[open] pre").inner_text() == "It is the ball."
    assert "gave no answer" in page.inner_text(".outcome")
    repaired = step(open_page("#/q/vca"), 5)
    assert "repaired" in repaired.locator("header").inner_text()
    assert repaired.locator(".problem").count() == 0
    assert repaired.locator(".fields").inner_text().split() == ["segment", "0"]


# ---- over the video --------------------------------------------------------------------------------------


def test_the_tree_is_drawn_over_the_time_axis(open_page: Open) -> None:
    page = open_page("#/q/vca")
    names = page.locator(".bar-part").evaluate_all("all => all.map(one => one.dataset.name)")
    drawn = dict(zip(names, over(page, ".bar-part", ".level", DURATION), strict=True))
    assert len(drawn) == 28
    for name in ("0", "3", "6", "3.2", "0.2", "0.2.3"):
        assert drawn[name] == pytest.approx(agents.span(name), abs=0.3), name
    levels = page.locator(".level").evaluate_all(
        "all => all.map(one => one.querySelectorAll('.bar-part').length)"
    )
    assert levels == [7, 14, 7]
    explored = page.locator(".bar-part.explored").evaluate_all("all => all.map(one => one.dataset.name)")
    assert set(explored) == {"3", "0", "0.2"}
    assert page.inner_text("[data-name='3'] .turn") == "1"
    assert page.inner_text("[data-name='0'] .turn") == "2"
    page.click("[data-name='3.2']")
    assert page.evaluate("document.activeElement.dataset.step") == "3"


# ---- side by side, and costs -----------------------------------------------------------------------------


def test_agents_stand_side_by_side_round_by_round(open_page: Open) -> None:
    page = open_page("#/q/lvagent")
    first, second = page.locator(".abreast").nth(0), page.locator(".abreast").nth(1)
    assert first.locator("[role=columnheader]").all_inner_texts() == list(agents.AGENTS)
    assert second.locator("[role=columnheader]").all_inner_texts() == list(agents.AGENTS[:2])
    rows = first.locator("[role=row]:has([role=cell])").evaluate_all(
        """all => all.map(row => [...row.children].map(
        one => one.querySelector('article')?.dataset.kind ?? null))"""
    )
    assert rows == [
        ["whole"] * 3, ["key", "key", None], ["retrieve", "retrieve", None], ["answer"] * 3, ["reason"] * 3,
        ["score"] * 3,
    ]  # fmt: skip
    turns = page.locator(".steps .turn")
    assert turns.nth(0).inner_text().split() == ["Round", "1", "A", "A", "C", "disagreed"]
    assert turns.nth(1).inner_text().split() == ["Round", "2", "A", "A", "agreed"]
    assert turns.nth(0).locator(".letter.bad").inner_text() == "C"
