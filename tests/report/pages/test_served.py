"""`videopro view --port`: the pages of runs over HTTP are those on disk, and follow a run in progress."""

from __future__ import annotations

import base64
import io
import json
import re
import signal
import socket
import subprocess
import sys
import zlib
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.support import agent_traces as agents
from tests.support import view_world as world
from tests.support.browser import needs_browser, opening, shown_number, texts
from tests.support.making_videos import make, read_number
from tests.support.served import listening
from videopro.commands.view import main
from videopro.report.pages.content import page_name
from videopro.report.pages.script import read_assignment
from videopro.report.pages.thumbnails import set_name
from videopro.serve import RunPages
from videopro.serve import viewer as viewer_file
from videopro.serve.viewer import create_viewer
from videopro.traces import Trace, TraceLog, VideoRef


def client(**runs: Path) -> TestClient:
    """The pages of a run, or of several by name."""
    alone = len(runs) == 1
    overview = "" if alone else "../../index.html"
    pages = {"" if alone else name: RunPages(path, 16, 128, overview) for name, path in runs.items()}
    return TestClient(create_viewer(pages), base_url="http://localhost:8080")


def data(reply: Any) -> Any:
    """The content of a data file."""
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/javascript")
    return json.loads(reply.text[reply.text.index(",") + 1 : reply.text.rindex(");")])


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of programs and of agents."""
    root = tmp_path_factory.mktemp("served")
    some = world.traces(root / "videos")
    of_agents = agents.traces(replace(some[0].video, duration=agents.DURATION))
    return world.write_run(root / "run", [*some, *of_agents]).path


# ---- what is served --------------------------------------------------------------------------------------


def test_pages_are_those_on_disk_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    assert main([str(run), "--output", str(tmp_path), "--no-pictures"]) == 0
    before = files(run)
    get = client(run=run).get
    for file in tmp_path.glob("*.*"):
        assert get(f"/{file.name}").text == file.read_text(encoding="utf-8")
    assert get("/").text == (tmp_path / "index.html").read_text(encoding="utf-8")
    index, written = data(get("/data/index.js")), read_assignment(tmp_path / "data" / "index.js")
    heads = written.pop("prompts")
    assert {key: index[key] for key in written} == written
    for name in (values[index["columns"].index("page")] for values in written["rows"]):
        page, other = (
            data(get(f"/data/questions/{name}.js")),
            read_assignment(tmp_path / "data" / "questions" / f"{name}.js"),
        )
        own = page.pop("beginnings")
        for content, beginnings in ((page, own), (other, heads)):
            content["video"].pop("source")
            for round in content["rounds"]:
                if round["prompt"] and round["prompt"]["head"] is not None:
                    round["prompt"]["head"] = beginnings[round["prompt"]["head"]]
        assert page == other
        trace = read_assignment(tmp_path / "data" / "traces" / f"{name}.js")
        assert data(get(f"/data/traces/{name}.js")) == trace
        json.loads(zlib.decompress(base64.b64decode(trace)))
    assert files(run) == before


def test_frames_and_videos_of_the_traces_are_served(run: Path, tmp_path: Path) -> None:
    get = client(run=run).get
    page = data(get(f"/data/questions/{page_name('refined')}.js"))
    pictures = data(get(f"/pictures/{page['video']['pictures']}.js"))
    assert (pictures["width"], pictures["height"], pictures["error"]) == (128, 64, "")

    def frame(query: str) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(get(f"/{pictures['url']}?{query}").content)))

    for number in (0, 9, 79):
        assert read_number(frame(f"time={number / world.RATE}&side=128")) == number
    assert frame("time=2.25&side=32&box=0,0,1,1").shape == (16, 32, 3)
    assert frame("time=2.25&side=128&box=0.25,0.25,0.75,0.75").shape == (32, 64, 3)
    video = Path(page["video"]["path"]).read_bytes()
    reply = get("/" + page["video"]["source"]["url"], headers={"Range": "bytes=100-199"})
    assert (reply.status_code, reply.content) == (206, video[100:200])
    assert reply.headers["content-range"] == f"bytes 100-199/{len(video)}"
    # One that is gone, and one that was replaced since.
    missing = data(get(f"/data/questions/{page_name('unread')}.js"))["video"]
    assert "lost.mp4" in missing["source"]["missing"]
    assert "lost.mp4" in data(get(f"/pictures/{missing['pictures']}.js"))["error"]
    assert get(f"/videos/{missing['pictures']}").status_code == 404
    make(tmp_path / "v.mp4", 8, rate=4)
    other = VideoRef(str(tmp_path / "v.mp4"), "v", "another", 2.0)
    changed = world.write_run(tmp_path / "run", [world.trace("q", other, "?", *world.direct("A", 0.9))]).path
    get, name = client(run=changed).get, set_name(other.path, other.id)
    assert "is not the file that the run used" in data(get(f"/pictures/{name}.js"))["error"]
    assert get(f"/videos/{name}").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/config.yaml", "/traces.jsonl", "/data/config.yaml", "/runs.py", "/data/questions/no.js"),
        *("/../config.yaml", "/..%2fconfig.yaml", "/videos/..%2f..%2fconfig.yaml", "/videos/%2fetc%2fpasswd"),
        *("/frames/no?time=1&side=9", "/pictures/no.js", "/runs/run/data/index.js"),
    ],
)
def test_nothing_else_is_served(run: Path, path: str) -> None:
    assert client(run=run).get(path).status_code == 404


def test_other_sites_cannot_read_the_pages(run: Path) -> None:
    browser = client(run=run)
    reply = browser.get("/data/index.js")
    # Without this, a page of any site could load the data as a script.
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert browser.get("/data/index.js", headers={"Host": "evil.example:8080"}).status_code == 403
    assert browser.get("/data/index.js", headers={"Origin": "http://evil.example"}).status_code == 403
    for host in ("127.0.0.1:8080", "[::1]:8080", "192.168.0.7:8080"):
        assert browser.get("/", headers={"Host": host}).status_code == 200


def test_several_runs_have_a_list(run: Path, tmp_path: Path) -> None:
    few = world.write_run(tmp_path / "few", world.traces(tmp_path / "videos")[:2], "native")
    get = client(all=run, few=few.path).get
    assert 'src="runs.js"' in get("/").text
    with few.running(["right", "wrong", "third"]):
        rows = data(get("/data/runs.js"))
    assert [(row["name"], row["questions"], row["run"]["method"]) for row in rows] == [
        ("all", 6 + len(agents.traces(VideoRef("v", "v"))), "videopro"),
        ("few", 2, "native"),
    ]
    assert (rows[1]["accuracy"], rows[1]["progress"]["running"], rows[1]["progress"]["total"]) == (
        0.5,
        True,
        3,
    )
    assert data(get("/runs/few/data/index.js"))["overview"] == "../../index.html"
    assert 'src="list.js"' in get("/runs/few/index.html").text
    assert get("/runs/none/data/index.js").status_code == 404


# ---- a run in progress -----------------------------------------------------------------------------------


def test_an_index_continues_where_the_page_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = world.traces(tmp_path / "videos")
    folder = world.write_run(tmp_path / "run", some[:1])
    log = TraceLog(folder.traces)
    pages = RunPages(folder.path, 16, 128)
    with folder.running([trace.question_id for trace in some]):
        first = pages.index()
        while first["progress"]["reading"]:
            first = pages.index()
        assert [row[0] for row in first["rows"]] == ["right"]
        expected = {"done": 1, "total": 6, "rate": None, "running": True, "reading": False, "problem": ""}
        assert first["progress"] == expected
        log.append_all(some[1:4])
        more = pages.index(first["next"])
        assert [row[0] for row in more["rows"]] == ["wrong", "refined", "unread"]
        assert (more["after"], more["next"], more["progress"]["done"]) == (1, 4, 4)
    log.close()
    # Of four, two are right; the run was stopped, and says so without a new answer.
    ended = pages.index(more["next"])
    assert (ended["rows"], ended["progress"]["running"], ended["progress"]["total"]) == ([], False, 6)
    assert RunPages(folder.path, 16, 128).index()["numbers"]["accuracy"] == 0.5
    # A server that was started again has read nothing yet; a page is not sent rows that it has.
    monkeypatch.setattr(viewer_file, "_CHUNK", 1)
    again = RunPages(folder.path, 16, 128)
    read = [again.index(3)]
    while read[-1]["progress"]["reading"]:
        read.append(again.index(read[-1]["next"]))
    assert [[row[0] for row in index["rows"]] for index in read] == [[], [], [], ["unread"], []]
    assert RunPages(folder.path, 16, 128).question(page_name("unread"))["id"] == "unread"
    # The traces were removed and made anew: the page begins again.
    assert again.index(9)["after"] == 0
    assert len(again.index(9)["rows"]) == 4


def test_lines_of_another_run_are_reported_on_the_page(tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    folder = world.write_run(tmp_path / "run", some[:2])
    pages = RunPages(folder.path, 16, 128)
    assert len(pages.index()["rows"]) == 2
    with folder.traces.open("ab") as file:
        file.write(replace(some[2], run_key="another").to_line())
    index = pages.index()
    assert len(index["rows"]) == 2
    assert "line 3 is of another run" in index["progress"]["problem"]


def test_the_rate_counts_what_was_answered_while_the_page_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = world.traces(tmp_path / "videos")
    folder = world.write_run(tmp_path / "run", some[:2])
    log = TraceLog(folder.traces)
    pages = RunPages(folder.path, 16, 128)

    def rate() -> Any:
        while (progress := pages.index()["progress"])["reading"]:
            pass
        return progress["rate"]

    now = [0.0]
    monkeypatch.setattr(viewer_file.time, "monotonic", lambda: now[0])
    assert rate() is None, "earlier answers took none of the measured time"
    now[0] = 100.0
    assert rate() is None
    log.append_all(some[2:4])
    now[0] = 200.0
    assert rate() == pytest.approx(2 / 200)
    log.append_all(some[4:5])
    now[0] = 240.0
    assert rate() == pytest.approx(3 / 240)
    log.close()


def test_the_command_prints_the_address_and_ends_at_ctrl_c(run: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "videopro", "view", str(run), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        match = re.fullmatch(
            r"open http://127\.0\.0\.1:(\d+) \(press Ctrl-C to stop\)\n", process.stdout.readline()
        )
        assert match is not None
        port = match[1]
        tunnel = f"from another machine: ssh -L {port}:localhost:{port} {socket.gethostname()}\n"
        assert process.stdout.readline() == tunnel
        # Another one cannot have the port.
        assert main([str(run), "--port", port]) == 2
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
        assert (process.returncode, printed.strip()) == (130, "stopped; re-run the same command to resume")


# ---- in a browser ----------------------------------------------------------------------------------------


def a_trace(number: int) -> Trace:
    """Every third is wrong; the later, the more confident."""
    video, given = VideoRef("nowhere.mp4", "v", "", 9.0), "A" if number % 3 else "B"
    answered = world.direct(given, 0.3 + number / 200)
    return world.trace(f"q{number:03d}", video, f"What is {number}?", *answered)


def listed(page: Any, count: int) -> None:
    """Wait until the page has so many questions."""
    page.wait_for_function("count => VIEW.rows.length === count", arg=count)


def status(page: Any, words: str) -> None:
    """Wait until the progress says this."""
    page.wait_for_function(
        "words => document.querySelector('.run-progress')?.innerText.includes(words)", arg=words
    )


_TOP = """() => { const row = [...document.querySelectorAll('.row')].find(
    (row) => row.getBoundingClientRect().top > 0);
    return [row.dataset.id, Math.round(row.getBoundingClientRect().top)] }"""


@needs_browser[1]
@needs_browser[0]
def test_an_open_page_follows_its_run(browser: Any, tmp_path: Path) -> None:
    some = [a_trace(number) for number in range(100)]
    folder = world.write_run(tmp_path / "run", some[:70])
    log = TraceLog(folder.traces)

    def app() -> Any:
        return create_viewer({"": RunPages(folder.path, 16, 128)})

    with opening(browser, 1280) as opened, ExitStack() as going, ExitStack() as server:
        going.enter_context(folder.running([trace.question_id for trace in some]))
        address = server.enter_context(listening(app()))
        page = opened(f"{address}/", "")
        listed(page, 70)
        status(page, "70 of 100 answered")
        status(page, "waiting for answers")
        # Filters and the focus stay: of 70 questions every third is wrong, of 80 too.
        page.click("[data-result=wrong]")
        assert page.locator(".row").count() == 24
        page.focus(".row[data-id=q003]")
        log.append_all(some[70:80])
        listed(page, 80)
        status(page, "per minute")
        assert page.locator(".row").count() == 27
        assert page.evaluate("document.activeElement.dataset.id") == "q003"
        assert "result=wrong" in page.url
        # 53 of 80 are right.
        assert "66.3 %" in page.inner_text("header.run")
        assert texts(page.locator(".segments small")) == ["80", "53", "27", "0"]
        # The more confident ones come before those that the reader looks at, which stay where they are.
        page.evaluate("location.hash = '#/?sort=sure'")
        page.locator(".row").nth(40).scroll_into_view_if_needed()
        top = page.evaluate(_TOP)
        log.append_all(some[80:90])
        listed(page, 90)
        assert page.evaluate(_TOP) == top
        assert page.locator(".row").first.get_attribute("data-id") == "q089"
        # A question stays open, also while the server is away; a link to one that is not answered yet waits.
        page.evaluate("location.hash = '#/q/q001'")
        page.wait_for_selector("h1:text('What is 1?')")
        server.close()
        page.evaluate("location.hash = '#/?sort=sure'")
        status(page, "the server does not answer")
        page.evaluate("location.hash = '#/q/q095'")
        page.wait_for_selector(".empty:text('no such question')")
        log.append_all(some[90:96])
        server.enter_context(listening(app(), port=int(address.rpartition(":")[2])))
        page.wait_for_selector("h1:text('What is 95?')")
        going.close()
        page.evaluate("location.hash = '#/'")
        status(page, "stopped with 4 left; re-run its command to resume")
        with folder.running([trace.question_id for trace in some]):
            log.append_all(some[96:])
            listed(page, 100)
        status(page, "finished")
        log.close()


@needs_browser[1]
@needs_browser[0]
def test_frames_and_the_video_are_shown_over_http(browser: Any, run: Path) -> None:
    app = create_viewer({"": RunPages(run, 16, 128)})
    with opening(browser, 1280) as opened, listening(app) as address:
        page = opened(f"{address}/", "#/q/refined")
        page.wait_for_selector(".call .picture")
        assert shown_number(page.locator(".thumbs .picture").first) == 2
        page.locator("a.moment").first.click()
        page.wait_for_function("() => document.querySelector('video').readyState >= 2")
        assert page.locator(".no-video").is_hidden()
        # A page of another site receives nothing.
        other = browser.new_page()
        other.set_content(
            f"<script>VIEW = {{index: () => (VIEW.stolen = true)}}</script>"
            f"<script src='{address}/data/index.js'></script>",
            wait_until="load",
        )
        assert other.evaluate("VIEW.stolen") is None
        other.close()
