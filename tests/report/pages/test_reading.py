"""What helps a reader of the pages, in a real browser: themes, the legend, keys, frames in large, the video,
prompts, JSON with its copy buttons, and several runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support import view_world as world
from tests.support.browser import Open, needs_browser, shown_number, texts, violations
from tests.support.report_world import answers, planned_run, write_run
from videopro.commands.report import main as run_report
from videopro.commands.view import main
from videopro.question import Question
from videopro.traces import VideoRef, recorded_prompt

pytestmark = needs_browser
GOLDEN = ROOT / "tests" / "golden" / "prompts"
PROMPTS = ("plan-adaptive-four-reference-examples.txt", "bug_fix-four.txt")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
WIDE = {"viewport": {"width": 1440, "height": 900}}


# ---- themes ----------------------------------------------------------------------------------------------


def is_dark(page: Any) -> bool:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[4:-1].split(",")) < 3 * 128


def test_the_theme_follows_the_system_until_one_is_chosen(open_page: Open) -> None:
    page = open_page("", color_scheme="dark")
    assert page.input_value("select.theme") == "auto"
    assert is_dark(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-theme=light]")
    assert not is_dark(page)
    page.select_option("select.theme", "dark")
    assert is_dark(page)
    # Remembered, for the other pages, too.
    page.reload()
    page.wait_for_selector(".row")
    assert is_dark(page)
    page.click(".row")
    page.wait_for_selector("main.question h1")
    assert page.input_value("select.theme") == "dark"
    page.emulate_media(color_scheme="light")
    assert is_dark(page)
    page.select_option("select.theme", "auto")
    assert not is_dark(page)


# ---- legend and keys -------------------------------------------------------------------------------------


def test_the_legend_is_one_click_or_key_away(open_page: Open) -> None:
    page = open_page()
    legend = page.locator("#legend")
    assert not legend.is_visible()
    page.click(".legend-button")
    assert legend.is_visible()
    page.keyboard.press("Escape")
    assert not legend.is_visible()
    page.keyboard.press("?")
    assert legend.is_visible()
    page.click("h1")
    assert not legend.is_visible(), "a click elsewhere closes it"


def test_no_key_acts_while_something_is_typed(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("j/k?")
    assert page.input_value("#search") == "j/k?"
    assert page.evaluate("document.activeElement.id") == "search"
    assert not page.locator("#legend").is_visible()
    for key in ("ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "search"
    page.select_option(".sort select", "id")
    page.focus(".sort select")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.localName") == "select"


# ---- frames in large -------------------------------------------------------------------------------------


def test_a_frame_opens_large_and_steps_through_those_of_its_call(open_page: Open) -> None:
    page = open_page("#/q/refined", **WIDE)
    frames = page.locator("[data-round='1'] [data-line='4'] button.open")
    assert frames.count() == 4
    frames.nth(1).click()
    box = page.locator(".lightbox")
    assert box.is_visible()
    assert violations(page) == []
    assert page.inner_text(".lightbox .caption").split("\n") == ["0:02.3", "2 of 4"]
    page.add_style_tag(content=".box { display: none !important }")
    picture, following = page.locator(".stage .picture").last, page.locator("[aria-label^='Next frame']")
    assert shown_number(picture) == 9
    for keys, number in ((["ArrowRight"], 10), (["End", "ArrowRight"], 11), (["ArrowLeft", "Home"], 8)):
        for key in keys:
            page.keyboard.press(key)
        assert shown_number(picture) == number
        assert following.is_disabled() == (number == 11)
        assert f"{number - 7} of 4" in page.inner_text(".lightbox .caption")
    following.click()
    assert shown_number(picture) == 9
    page.keyboard.press("j")
    assert page.url.endswith("#/q/refined"), "the page's own keys are asleep"
    page.keyboard.press("Escape")
    box.wait_for(state="detached")
    assert page.url.endswith("#/q/refined"), "Escape closed the frame only"
    assert frames.nth(1).evaluate("one => one === document.activeElement"), "focus is back"


def test_frames_work_by_touch(open_page: Open) -> None:
    page = open_page("#/q/refined", **PHONE)
    page.locator("[data-round='1'] [data-line='4'] button.open").first.tap()
    stage = page.locator(".stage")
    page.locator("[aria-label^='Next frame']").tap()
    assert "2 of 4" in page.inner_text(".lightbox .caption")
    for start, end, place in ((300, 100, "3 of 4"), (100, 300, "2 of 4"), (200, 210, "2 of 4")):
        for kind, x in (("pointerdown", start), ("pointerup", end)):
            stage.dispatch_event(kind, {"clientX": x, "clientY": 400, "bubbles": True})
        assert place in page.inner_text(".lightbox .caption")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    page.locator(".close").tap()
    page.locator(".lightbox").wait_for(state="detached")


# ---- prompts and JSON ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A refined question, whose prompts are two of ours."""
    root = tmp_path_factory.mktemp("planned")
    video = VideoRef("nowhere.mp4", "v", "", world.SECONDS)
    trace = world.refined(video)
    question = Question(trace.question, trace.choices)
    prompts = [(GOLDEN / name).read_text(encoding="utf-8") for name in PROMPTS]
    rounds = [
        replace(round, prompt=recorded_prompt(text, question))
        for round, text in zip(trace.rounds, prompts, strict=True)
    ]
    run = world.write_run(root / "run", [replace(trace, rounds=tuple(rounds))])
    assert main([str(run.path), "--no-pictures"]) == 0
    return run.path / "view"


def open_details(page: Any, selector: str, name: str) -> Any:
    page.locator(f"{selector} summary", has_text=name).click()
    return page.locator(f"{selector} details[open]", has_text=name)


def test_the_planners_prompt_is_one_click_away(open_page: Open, planned: Path) -> None:
    page = open_page("#/q/refined", folder=planned)
    for number, name in enumerate(PROMPTS, 1):
        shown = open_details(page, f"[data-round='{number}']", "The planner's prompt")
        assert shown.locator("pre").text_content() == (GOLDEN / name).read_text(encoding="utf-8")
    # One that was not stored says why.
    page = open_page("#/q/refined")
    assert "the run did not store its prompts" in page.inner_text("[data-round='1'] .no-prompt")
    assert page.locator('summary:text("planner\'s prompt")').count() == 0


def test_the_trace_is_there_as_json(open_page: Open, overview: Path) -> None:
    page = open_page("#/q/refined")
    assert not [url for url in page.requested if "data/traces" in url], "read when it is opened"
    shown = open_details(page, ".asked", "The trace as JSON").locator("pre")
    shown.wait_for()
    lines = (overview.parent / "all" / "traces.jsonl").read_text().splitlines()
    recorded = next(line for line in map(json.loads, lines) if line["question_id"] == "refined")
    assert json.loads(shown.inner_text()) == recorded
    assert '\n  "question_id": "refined"' in shown.inner_text(), "indented"
    page.reload()
    page.wait_for_selector("main.question h1")
    page.evaluate("delete window.DecompressionStream")
    open_details(page, ".asked", "The trace as JSON")
    page.wait_for_selector(".json .note:text('too old')")


def test_copy_buttons_copy(open_page: Open, planned: Path) -> None:
    page = open_page("#/q/refined", folder=planned)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    details = open_details(page, "[data-round='1']", "The model's reply")
    details.locator("button.copy").click()
    page.wait_for_selector("button.copy:text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == details.locator("pre").inner_text()
    open_details(page, ".asked", "The trace as JSON").locator("button.copy").click()
    page.wait_for_selector(".json button.copy:text('Copied')")
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["question_id"] == "refined"


# ---- several runs ----------------------------------------------------------------------------------------


def test_the_list_of_runs_leads_to_each_and_back(open_page: Open, tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    world.write_run(tmp_path / "runs" / "first run", some[:2])
    world.write_run(tmp_path / "runs" / "second", some[2:3], method="native")
    assert main([str(tmp_path / "runs"), "--no-pictures"]) == 0
    for options in ({}, PHONE):
        page = open_page("", folder=tmp_path / "runs" / "view", **options)
        rows = page.locator("tbody tr").evaluate_all(
            "all => all.map(row => [...row.children].map(one => one.innerText))"
        )
        assert [row[0] for row in rows] == ["first run", "second"]
        assert rows[0][4:7] == ["50.0 %", "2", "1"]
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        assert violations(page) == []
        page.click("text=first run")
        page.wait_for_selector("main.list")
        assert page.locator(".row").count() == 2
        page.click("text=all runs")
        page.wait_for_selector("main.runs")


def test_a_report_fits_and_is_accessible(browser: Any, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "native", answers("ABBA")), planned_run(tmp_path / "v", refine_below=0.9)]
    assert run_report([*map(str, runs), "--output", str(tmp_path / "report")]) == 0
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto((tmp_path / "report" / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.querySelectorAll('table, img').length") > 10
    cut = page.evaluate(
        """() => [...document.querySelectorAll("table, img")].filter(part => {
        const box = part.closest(".wide").getBoundingClientRect();
        return box.left < 0 || box.right > innerWidth }).length"""
    )
    assert cut == 0
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    for width, scheme in ((390, "dark"), (1440, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme


# ---- every page ------------------------------------------------------------------------------------------

PAGES = ("refined", "wrong", "missing", "vca", "dvd", "lvagent", "unparsed", "hostile", "never")


@pytest.mark.parametrize("options", [PHONE, WIDE], ids=["phone", "wide"])
@pytest.mark.parametrize("hash", ["", "#/?mark=refined&mode=native", *(f"#/q/{id}" for id in PAGES)])
def test_every_page_fits_and_is_accessible(open_page: Open, hash: str, options: dict[str, Any]) -> None:
    """With everything open."""
    page = open_page(hash, **options)
    if options is PHONE:
        # Of agents, the steps are below each other, with their agents' names.
        lefts = page.locator("[data-kind=answer]").evaluate_all(
            "all => all.map(one => Math.round(one.getBoundingClientRect().left))"
        )
        assert len(set(lefts)) <= 1
        assert "lvagent" not in hash or page.locator("[data-step='5'] .model").is_visible()
    for summary in page.locator("summary:visible").all():
        summary.click()
    assert violations(page) == []
    if "never" not in hash:
        page.click(".legend-button")
    if hash in ("", "#/q/refined", "#/q/dvd"):
        assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


PROGRAM = ("h1", "[data-letter=A]", ".planning", "[data-line='2'] code", "[data-line='2'] .call", ".problem")
STEPS = (
    *("article.step header", ".fields", ".segments-found", ".words", ".problem", ".calling", ".lane .jump"),
    *("[role=columnheader]", ".costs"),
)


@pytest.mark.parametrize(("row", "places"), [("text=Is it </script>", PROGRAM), ("[data-id=hostile]", STEPS)])
def test_text_is_never_markup(open_page: Open, row: str, places: tuple[str, ...]) -> None:
    page = open_page("#/?result=none")
    page.click(row)
    page.wait_for_selector("main.question h1")
    for summary in page.locator("summary").all():
        summary.click()
    page.wait_for_selector(".json pre")
    for place in (*places, ".problem pre, details[open] pre", ".json pre"):
        assert any("<img src=x onerror=" in text for text in texts(page.locator(place))), place
    assert page.locator("img").count() == 0
    page.reload()
    page.wait_for_selector("main.question h1")
    assert page.evaluate("window.hurt") is None


# ---- the video ---------------------------------------------------------------------------------------------


PLAYED = "[...document.querySelectorAll('video')].some(one => !one.paused)"


def shown(page: Any) -> int:
    """The number of the picture at which the video stands."""
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
    assert page.videos == [page.evaluate("document.querySelector('video').src")]
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
    page.wait_for_selector(".player.afloat")  # The video comes to the reader.
    page.click(".player .shut")
    assert not page.evaluate(PLAYED)
    page.keyboard.press("Escape")
    page.wait_for_selector(".row")
    assert page.url.endswith("#/?mark=refined")


def test_a_click_on_a_call_or_on_the_axis_takes_the_video_there(open_page: Open) -> None:
    page = open_page("#/q/refined")
    page.click("[data-round='1'] [data-line='2'] .signature .args")
    assert at(page) == pytest.approx(4.0, abs=0.01)
    lane = page.locator(".lane.evidence .track")
    box = lane.bounding_box()
    lane.click(position={"x": box["width"] * 0.75, "y": 8})
    assert at(page) == pytest.approx(15.0, abs=0.1)
    # Of twenty seconds the refined answer cites what was found from 2 to 3, and the frame that it looked at.
    cited = page.locator(".lane.cited .span").first.bounding_box()
    assert (cited["x"] - box["x"]) / box["width"] == pytest.approx(2 / 20, abs=0.01)
    assert page.locator(".lane.cited .tick").count() == 1
    page.mouse.click(cited["x"] + cited["width"] / 2, cited["y"] + 4)
    assert at(page) == pytest.approx(2.5, abs=0.1)
    lane.click(position={"x": box["width"] * 0.75, "y": 8})
    head = page.locator(".playhead")
    head.wait_for()
    middle = head.bounding_box()["x"] + 1
    assert (middle - box["x"]) / box["width"] == pytest.approx(0.75, abs=0.01)
    assert not page.evaluate(PLAYED)


def test_a_video_that_cannot_be_played_is_one_line(open_page: Open, tmp_path: Path) -> None:
    """Without pictures, whose absence has a line of its own."""
    right, _, _, unread, *_ = world.traces(tmp_path / "videos")
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    video = VideoRef(str(tmp_path / "broken.mp4"), "broken", "", 9.0)
    run = world.write_run(tmp_path / "run", [unread, replace(right, question_id="broken", video=video)])
    assert main([str(run.path), "--no-pictures"]) == 0
    for id, line in (("unread", "the file is missing ("), ("broken", "it was moved, or this browser does")):
        page = open_page(f"#/q/{id}", folder=run.path / "view")
        page.wait_for_selector(".no-video:visible")
        assert page.inner_text(".no-video").startswith(f"Cannot play the video: {line}")
        assert page.locator("video").count() == 0
        assert page.locator("a.moment[href]").count() == 0
        page.keyboard.press("p")
        page.click(".signature")
        assert page.locator(".call.open [aria-expanded=true]").count() == 1
        page.focus(".signature .args")
        page.keyboard.press("Enter")
        assert page.locator(".call.open, [aria-expanded=true]").count() == 0
        page.keyboard.press("Escape")
        page.wait_for_selector(".row")


def test_the_video_that_the_run_did_not_see_is_not_offered(open_page: Open, tmp_path: Path) -> None:
    trace = world.traces(tmp_path / "videos")[0]
    other = replace(trace, video=replace(trace.video, id="of another file"))
    run = world.write_run(tmp_path / "run", [other])
    assert main([str(run.path)]) == 0
    page = open_page("#/q/right", folder=run.path / "view")
    assert "is not the file that the run used" in page.inner_text(".note.missing")
    assert page.locator("video").count() == 0
    assert page.videos == []
