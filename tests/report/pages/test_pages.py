"""The viewer's pages in a real browser, opened from disk (`tests.support.browser`). Those of agents are in
test_step_pages.py."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import view_world as world
from tests.support.browser import Open, needs_browser, shown_number, violations
from videopro.commands.view import main
from videopro.question import Answer
from videopro.traces import Failure, Trace

pytestmark = needs_browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages")
    run = world.write_run(root / "run", world.traces(root / "videos"))
    assert main([str(run.path)]) == 0
    return run.path / "view"


def ids(page: Any) -> list[str]:
    listed = page.eval_on_selector_all(".row", "all => all.map(one => one.dataset.id)")
    return [name.split("/")[0] for name in listed]


def rows(page: Any, count: int) -> None:
    """Waits until so many are listed."""
    page.wait_for_function("count => document.querySelectorAll('.row').length === count", arg=count)


def pages_of(folder: Path, traces: Sequence[Trace]) -> Path:
    """The pages of a run without pictures."""
    run = world.write_run(folder / "run", list(traces))
    assert main([str(run.path), "--no-pictures"]) == 0
    return run.path / "view"


def focused(page: Any, what: str = "localName") -> str:
    return str(page.evaluate(f"document.activeElement.{what}"))


def plain(id: str, question: str) -> Trace:
    return world.trace(id, world.VideoRef("nowhere.mp4", "v", "", 9.0), question, *world.direct("A", 0.9))


# ---- the list --------------------------------------------------------------------------------------------


def test_the_list_opens_from_disk_and_loads_no_question(open_page: Open) -> None:
    page = open_page()
    assert ids(page) == ["right", "wrong", "refined", "unread", "missing", "hostile"]
    assert "40.0 %" in page.inner_text("header.run")
    assert not [url for url in page.requested if "questions/" in url or "pictures/" in url]


def test_filters_narrow_the_list_and_are_in_the_url(open_page: Open) -> None:
    page = open_page()
    page.click("button[data-result=wrong]")
    rows(page, 1)
    assert ids(page) == ["wrong"]
    assert page.url.endswith("#/?result=wrong")
    page.go_back()
    rows(page, 6)
    page.click("button[data-result=none]")
    rows(page, 3)
    assert ids(page) == ["unread", "missing", "hostile"]
    page.focus("text=Clear all filters")
    page.keyboard.press("Enter")
    rows(page, 6)
    assert focused(page, "id") == "search"
    # By keyboard, too, and the cursor stays.
    page.focus("[data-mark=refined]")
    page.keyboard.press("Space")
    rows(page, 1)
    assert focused(page, "dataset.mark") == "refined"
    page.keyboard.press("Space")
    rows(page, 6)
    page.focus(".sort select")
    page.select_option(".sort select", "id")
    page.wait_for_selector(".row >> nth=0 >> text=hostile")
    assert focused(page) == "select"
    page.go_back()
    page.wait_for_function("document.querySelector('.sort select').value === 'order'")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("mark=refined", ["refined"]),
        ("mode=native", ["right", "wrong", "unread"]),
        ("mode=program", ["refined", "hostile"]),
        ("low=0.6&high=0.9", ["wrong", "refined"]),
        ("group.family=gist", ["right", "unread"]),
        ("search=GONE.mp4", ["missing"]),
        ("sort=sure", ["right", "refined", "wrong", "unread", "hostile", "missing"]),
        ("result=nonsense&low=x", ["right", "wrong", "refined", "unread", "missing", "hostile"]),
        ("group.family=none", []),
    ],
)
def test_a_url_restores_the_list(open_page: Open, query: str, found: list[str]) -> None:
    assert ids(open_page(f"#/?{query}")) == found


def test_keyboard_navigation(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert focused(page, "dataset.id") == "wrong"
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:focus:text('Which is shown now?')")
    page.keyboard.press("j")
    page.wait_for_selector("h1:focus:text('What flies')")
    assert "3 of 6" in page.inner_text(".bar")
    page.keyboard.press("k")
    page.wait_for_selector("h1:focus:text('Which is shown now?')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".row")
    assert focused(page, "dataset.id") == "wrong", "the list resumes where it was"
    page.keyboard.press("Tab")
    assert focused(page, "dataset.id") == "refined"
    # What the list does not show leads back to its heading.
    page.goto(page.url.split("#")[0] + "#/q/never")
    page.wait_for_selector("h1.empty:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("header.run h1:focus")


# ---- a question ------------------------------------------------------------------------------------------


def test_a_program_is_shown_with_the_calls_of_each_line(open_page: Open) -> None:
    page = open_page("#/q/refined")
    second = page.locator("[data-round='2']")
    lines = second.locator(".line:not(.gone) code").all_inner_texts()
    assert [line.strip() for line in lines] == [line.strip() for line in world.SECOND.split("\n")]
    assert second.locator(".t-k", has_text="def").count() == 1
    called = {
        line: second.locator(f"[data-line='{line}'] .call").evaluate_all(
            "all => all.map(one => one.dataset.fn)"
        )
        for line in range(1, 10)
    }
    assert called == {
        1: [], 4: [], 5: [],
        2: ["get_informative_clips"],
        3: ["extract_frames"],
        6: ["detect_object"] * 4,
        7: ["crop"],
        8: ["get_informative_subtitles"],
        9: ["query_mc"],
    }  # fmt: skip
    answer = second.locator("[data-line='9'] .answer").inner_text().split()
    assert answer == ["A", "0.90"]


def test_the_calls_of_a_loop_are_shown_on_request(open_page: Open, tmp_path: Path) -> None:
    made = world.refined(world.VideoRef("nowhere.mp4", "v", "", world.SECONDS))
    first, second = made.rounds
    assert second.execution is not None
    twice = replace(second.execution, calls=second.execution.calls * 2)
    folder = pages_of(tmp_path, [replace(made, rounds=(first, replace(second, execution=twice)))])
    page = open_page("#/q/refined", folder=folder)
    page.focus("text=5 more calls on this line")
    page.keyboard.press("Enter")
    numbers = page.locator("[data-round='2'] [data-line='6'] .order").all_inner_texts()
    assert numbers == ["3", "4", "5", "6", "12", "13", "14", "15"]
    assert page.inner_text(".call:focus .order") == "6"


def test_a_refinement_is_a_diff(open_page: Open) -> None:
    page = open_page("#/q/refined")
    first, second = page.locator("[data-round='1']"), page.locator("[data-round='2']")
    assert first.locator(".added, .gone").count() == 0
    gone = [line.strip() for line in second.locator(".gone code").all_inner_texts()]
    assert gone == [
        'intervals, clips = get_informative_clips(video, "kite", top_k=1)',
        "return query_mc(frames, question, choices)",
    ]
    numbers = second.locator(".added").evaluate_all("all => all.map(one => Number(one.dataset.line))")
    assert numbers == [2, 4, 5, 6, 7, 8, 9]
    second.get_by_label("show changes").uncheck()
    assert not second.locator(".gone").first.is_visible()


def test_pictures_show_what_the_calls_saw(open_page: Open) -> None:
    page = open_page("#/q/refined", device_scale_factor=2)
    page.add_style_tag(content=".box { display: none !important }")
    seen = page.locator("[data-round='1'] [data-line='4'] .picture")
    assert seen.count() == 4
    assert [shown_number(seen.nth(n)) for n in range(4)] == [8, 9, 10, 11]
    # Sixteen over 20 s: the first in the middle of 0 to 1.25 s, four pictures a second.
    strip = page.locator(".thumbs .picture")
    assert strip.count() == 16
    assert [shown_number(strip.nth(n)) for n in (0, 15)] == [2, 77]


def test_boxes_and_crops_are_drawn_where_they_are(open_page: Open) -> None:
    page = open_page("#/q/refined")
    second = page.locator("[data-round='2']")

    def share(box: Any) -> list[float]:
        return box.evaluate(
            """one => { const a = one.getBoundingClientRect(), b = one.parentElement.getBoundingClientRect();
            return [a.left - b.left, a.top - b.top, a.right - b.left, a.bottom - b.top]
              .map((value, i) => value / (i % 2 ? b.height : b.width)) }"""
        )

    corners = [0.25, 0.25, 0.75, 0.75]
    found = second.locator("[data-line='6'] .box")
    assert found.count() == 1, "one of four frames has a kite"
    assert found.get_attribute("title") == "kite, score 0.81"
    assert share(found) == pytest.approx(corners, abs=0.02)
    assert share(second.locator("[data-line='7'] .box")) == pytest.approx(corners, abs=0.02)
    crop = second.locator("[data-line='9'] figure")
    assert share(crop.locator(".box")) == pytest.approx(corners, abs=0.02)
    assert crop.locator(".picture").count() == 2


def test_options_tell_right_chosen_and_how_likely(open_page: Open) -> None:
    page = open_page("#/q/wrong")
    assert page.locator("li.gold").get_attribute("data-letter") == "A"
    assert page.locator("li.given.bad").get_attribute("data-letter") == "C"
    assert page.locator("[data-letter=C] .number").inner_text() == "0.60"
    assert page.locator("[data-letter=C] .bars i").evaluate("one => one.style.width") == "60%"
    changed = open_page("#/q/refined")
    assert "fixed by refinement" in changed.inner_text(".verdict")
    assert "first choice" in changed.locator("[data-letter=B]").inner_text()
    bars = changed.locator("[data-letter=B] .bars i").evaluate_all("all => all.map(one => one.style.width)")
    assert [float(width.rstrip("%")) for width in bars] == pytest.approx([40, 100 * 0.1 / 3], abs=0.1)


def test_missing_videos_are_reported_and_the_rest_is_shown(open_page: Open) -> None:
    lost = open_page("#/q/unread")
    assert "lost.mp4" in lost.inner_text(".note.missing")
    assert lost.locator(".lane.scale").count() == 1
    assert lost.locator(".picture").count() == 0
    assert "2 frames, 0:00 – 0:10" in lost.inner_text(".call")
    gone = open_page("#/q/missing")
    assert "could not open this video" in gone.inner_text(".note.missing")
    assert "no such file" in gone.inner_text(".problem")


def test_unknown_questions_and_broken_folders_are_reported(
    open_page: Open, site: Path, tmp_path: Path
) -> None:
    assert "this run has no such question" in open_page("#/q/never").inner_text(".empty")
    shutil.copytree(site, tmp_path / "copy")
    (tmp_path / "copy" / "data" / "index.js").write_text("VIEW.index(")
    page = open_page("", folder=tmp_path / "copy", wrong_is_fine=True)
    assert "data/index.js is missing or broken" in page.inner_text(".empty")
    assert violations(page) == []


def test_a_long_list_is_drawn_around_the_cursor(open_page: Open, tmp_path: Path) -> None:
    folder = pages_of(tmp_path, [plain(f"q{n:03d}", f"What {n}?") for n in range(300)])
    page = open_page("#/q/q200", folder=folder)
    page.keyboard.press("Escape")
    page.wait_for_selector(".row")
    assert focused(page, "dataset.id") == "q200"
    assert "q000" not in ids(page)
    drawn = ids(page)
    assert drawn == [f"q{n:03d}" for n in range(int(drawn[0][1:]), int(drawn[-1][1:]) + 1)]
    for _ in range(40):
        page.keyboard.press("k")
    assert focused(page, "dataset.id") == "q160"
    before = int(ids(page)[0][1:]) - 1
    page.click(".before")
    assert ids(page)[0] < "q110"
    assert focused(page, "dataset.id") == f"q{before:03d}"


# ---- in words --------------------------------------------------------------------------------------------


def open_question(root: Path) -> Any:
    """A run with the questions above and an open one, which a refinement answered."""
    words = "A red kite with a long tail flies over the hill, and a child in a yellow coat holds its string."
    traces = world.traces(root / "videos")
    refined = traces[2]
    before, after = Answer(None, 0.4, {}, ""), Answer(None, 0.8, {}, words)
    first, second = (
        replace(part.execution, answer=given)
        for part, given in zip(refined.rounds, (before, after), strict=True)
    )
    failed = replace(first, status="failed", error=Failure("NameError", "name 'clips' is not defined", 2, ""))
    rounds = (
        replace(refined.rounds[0], execution=failed),
        replace(refined.rounds[1], execution=second, prompt_kind="bug_fix"),
    )
    asked = {"question_id": "open", "choices": (), "gold": None, "reference": "a kite", "official": None}
    made = replace(refined, **asked, rounds=rounds, first=before, final=after)
    run = world.write_run(root / "words", [*traces, made])
    assert main([str(run.path)]) == 0
    return run.path / "view"


def test_what_is_right_and_what_was_said_are_words(open_page: Open, tmp_path: Path) -> None:
    folder = open_question(tmp_path)
    page = open_page(folder=folder)
    row = page.locator(".row[data-id=open]")
    assert row.locator(".words span").inner_text().startswith("A red kite with a long tail flies over")
    assert row.locator(".words small").inner_text() == "reference: a kite"
    assert row.locator(".letter").count() == 0
    assert page.locator(".row[data-id=wrong] .letters").inner_text().split() == ["C", "right:", "A"]
    assert page.locator(".row[data-id=right] .letters").inner_text().split() == ["A"]
    page.goto(f"{folder.as_uri()}/index.html#/q/open")
    page.wait_for_selector("main.question")
    assert "holds its string." in page.inner_text("dl.open")
    assert "Refined because the first failed" in page.locator(".round h2").nth(1).inner_text()
    assert "A red kite with a long tail" in page.locator(".round .outcome").nth(1).inner_text()
    assert violations(page) == []
