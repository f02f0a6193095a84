"""The page of the server in a real browser, against the server itself; only its answers come when a test lets
them: `refined` of the viewer's tests, two programs with their calls."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.support import view_world as world
from tests.support.browser import Open, needs_browser, opening, texts_of
from tests.support.making_videos import make
from videopro.errors import Cancellation, cancellable
from videopro.methods import EventObserver, evidence, last_event
from videopro.question import Question
from videopro.serve import AskRequest, Film, ServeLimits, ServerState, create_app
from videopro.traces import Trace, VideoRef

pytestmark = needs_browser

PLAYED = "[...document.querySelectorAll('video')].some(one => !one.paused)"


class StepwiseAnswerer:
    """Takes the place of `Answerer`: an answer takes as many steps as `let` allows."""

    name, method, is_concurrent = "stepwise", "videopro", False

    def __init__(self) -> None:
        self.own, self.sample = None, None
        self.asked: list[AskRequest] = []
        self._steps = threading.Semaphore(0)
        self._indexed: set[str] = set()

    def let(self, steps: int = 1000) -> None:
        """Allow more steps: of each round its beginning, its calls and its end, and the answer."""
        for _ in range(steps):
            self._steps.release()

    def _step(self, cancellation: Cancellation) -> None:
        while not self._steps.acquire(timeout=0.02):
            cancellation.check()

    def ask(
        self,
        request: AskRequest,
        observer: EventObserver,
        cancellation: Cancellation,
        *,
        id: str = "ask",
    ) -> Trace:
        self.asked.append(request)
        film = request.film
        whole = world.refined(VideoRef(str(film.path), film.id, film.id, film.duration))
        with cancellable(cancellation):
            for round in whole.rounds:
                observer.on_wait("planning")
                if round.program is not None:
                    self._step(cancellation)
                    observer.on_reply(replace(round, execution=None))
                assert round.execution is not None
                for call in round.execution.calls:
                    self._step(cancellation)
                    observer.on_call(call)
                self._step(cancellation)
                observer.on_execution(round.execution)
            self._step(cancellation)
        changed = {"question": request.question, "choices": request.choices, "gold": None, "evidence": ()}
        trace = replace(whole, question_id=id, groups={}, **changed)
        for piece in evidence(trace):
            observer.emit({"type": "evidence", **piece})
        question = Question(trace.question, trace.choices) if trace.choices else Question.open(trace.question)
        observer.emit(last_event(trace, question))
        return trace

    def about(self) -> str | None:
        return None

    def scope_problem(self, film: Film) -> str | None:
        return None

    def questions(self, film: Film) -> None:
        """Any."""

    def check(self, request: AskRequest) -> None:
        pass

    def settings(self, request: AskRequest) -> dict[str, Any]:
        return {"method": "videopro", "model": "stepwise"}

    def identity(self, request: AskRequest) -> dict[str, Any]:
        return dict(world.IDENTITY)

    def has_index(self, film: Film) -> bool:
        return film.id in self._indexed

    def index(self, film: Film, emit: Callable[[dict[str, Any]], None], cancellation: Cancellation) -> None:
        for done in range(3):
            emit({"type": "progress", "doing": "indexing", "done": done, "total": 3})
            self._step(cancellation)
        self._indexed.add(film.id)


class PageServer:
    """The server, on a port of this machine that it keeps when it is started again."""

    def __init__(self, folder: Path, answerer: StepwiseAnswerer, **limits: Any) -> None:
        self.answerer = answerer
        self._folder, self._limits = folder, ServeLimits(**limits)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._state = ServerState(self._limits, self.answerer, self._folder)  # type: ignore[arg-type]
        config = uvicorn.Config(create_app(self._state), port=self.port, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def stop(self) -> None:
        """As when it is killed: its clients are told nothing."""
        self._server.force_exit = True
        self._server.should_exit = True
        self._thread.join()
        self._state.questions.stop_all("the server ends")
        self._state.questions.close()


Serve = Callable[..., PageServer]
Begin = Callable[..., tuple[PageServer, Any]]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "The kite.mp4"
    make(path, world.PICTURES, rate=world.RATE)
    return path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers = []

    def serve(**limits: Any) -> PageServer:
        servers.append(PageServer(tmp_path / "store", StepwiseAnswerer(), **limits))
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens the page of a server."""
    with opening(browser, 1440) as opened:
        yield lambda server, hash="", **options: opened(server.url, hash, **options)


@pytest.fixture
def begin(serve: Serve, open_page: Open, film: Path) -> Callable[..., tuple[PageServer, Any]]:
    """A server, and its page with the film in it."""

    def begin(**limits: Any) -> tuple[PageServer, Any]:
        server = serve(**limits)
        page = open_page(server)
        upload(page, film)
        return server, page

    return begin


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def until(page: Any, truth: str) -> None:
    """Wait until this is true of the page, whose policy lets no text become a script in it."""
    deadline = time.monotonic() + 60
    while not page.evaluate(truth):
        assert time.monotonic() < deadline, truth
        page.wait_for_timeout(20)


def upload(page: Any, film: Path) -> None:
    page.set_input_files("#file", film)
    page.wait_for_selector(f".picked:not(.uploading) strong:text-is('{film.name}')")


def ask(page: Any, question: str = "What flies over the hill?", choices: bool = True) -> None:
    """By keyboard alone."""
    page.focus("#question")
    page.keyboard.type(question)
    if choices:
        page.focus("text=Add choices")
        press(page, "Enter")
        for choice in world.CHOICES:
            page.keyboard.type(choice)
            press(page, "Enter")
    press(page, "Enter")
    page.wait_for_selector("main.question h1")


def test_from_a_film_to_an_answer_with_its_evidence(serve: Serve, open_page: Open, film: Path) -> None:
    server = serve()
    page = open_page(server)
    page.wait_for_selector(".earlier >> text=None yet")
    upload(page, film)
    assert "0:20 · 128 × 64" in page.inner_text(".picked .about")
    assert page.evaluate("document.activeElement.id") == "question"
    # Indexing shows its progress.
    page.click("text=Index it now")
    server.answerer.let(1)
    page.wait_for_selector(".progress:has-text('1 of 3')")
    assert page.evaluate("document.querySelector('progress').value") == pytest.approx(1 / 3)
    server.answerer.let(2)
    page.wait_for_selector(".state-of-index:has-text('indexed')")
    ask(page)
    # The plan comes first, then the program, then its calls one by one.
    page.wait_for_selector(".doing:text('Writing a program')")
    assert page.locator(".round").count() == 0
    server.answerer.let(1)
    page.wait_for_selector(".planning:text('Look for the kite.')")
    assert (page.locator(".line code").count(), page.locator(".call").count()) == (4, 0)
    server.answerer.let(2)
    page.wait_for_selector("[data-line='3'] .call")
    assert page.locator(".lane.retrieved .span").count() == 1
    assert page.locator(".costs, .json").count() == 0
    # What the reader does meanwhile stays: an opened call, and a film that plays.
    page.click("[data-line='2'] .call .text")
    page.click("[data-line='2'] .call a.play")
    until(page, PLAYED)
    page.evaluate("document.querySelector('video').dataset.same = 'yes'")
    server.answerer.let(4)
    page.wait_for_selector("[data-round='2'] .line")
    assert page.locator("[data-round='1'] [data-line='2'] .call.open").count() == 1
    assert page.evaluate(PLAYED)
    assert page.locator("video[data-same=yes]").count() == 1
    server.answerer.let()
    page.wait_for_selector(".verdict:text('Answered')")
    assert page.locator(".live").inner_text() == ""
    assert page.inner_text("li.given .text").startswith("a red kite")
    (request,) = server.answerer.asked
    assert (request.question, request.choices) == ("What flies over the hill?", world.CHOICES)
    # A piece of evidence plays the film from there: the line of the subtitles at 2 to 3 s.
    page.click(".piece:has-text('See the kite fly.')")
    until(page, "document.querySelector('video').currentTime >= 2")
    assert page.evaluate("document.querySelector('video').currentTime") < 5
    assert page.url.endswith("?t=2")


def test_a_link_opens_the_answer_and_one_asks_on(begin: Begin, open_page: Open) -> None:
    server, page = begin()
    server.answerer.let()
    ask(page)
    page.wait_for_selector(".ask-on")
    page.click(".copy-link")
    link = page.input_value("input.link") if page.locator("input.link").count() else page.url
    other = open_page(server, link.removeprefix(server.url) + "?t=15")
    other.wait_for_selector(".verdict:text('Answered')")
    until(other, "document.querySelector('video').currentTime > 14")
    press(other, "/")
    assert other.evaluate("document.activeElement.id") == "question"
    other.keyboard.type("And where does it land?")
    press(other, "Enter")
    other.wait_for_selector("h1:text('And where does it land?')")
    other.wait_for_selector(".ask-on")
    assert other.locator("ol.choices").count() == 0
    follows = server.answerer.asked[1]
    earlier = [(exchange.question, exchange.answer) for exchange in follows.earlier]
    assert earlier == [("What flies over the hill?", "a red kite")]
    press(other, "Escape")
    other.wait_for_selector("main.home .asked-before")
    asked = other.locator(".asked-before b").all_inner_texts()
    assert asked == ["And where does it land?", "What flies over the hill?"]
    assert other.request.delete(f"{server.url}v1/files/{server.answerer.asked[0].film.id}").ok
    other.click(".asked-before >> nth=1")
    other.wait_for_selector("h1:text('What flies over the hill?')")
    assert "This video was deleted from the server" in other.inner_text(".video .missing")
    assert other.locator("video, .ask-on").count() == 0


def test_an_upload_is_cancelled(serve: Serve, open_page: Open, film: Path) -> None:
    page = open_page(serve())
    page.route("**/v1/files", lambda route: None if route.request.method == "POST" else route.continue_())
    page.set_input_files("#file", film)
    page.click(".uploading button")
    page.wait_for_selector(".drop")
    assert page.locator(".problem:visible").count() == 0
    page.unroute_all(behavior="ignoreErrors")
    upload(page, film)


def test_a_server_that_is_started_again(begin: Begin) -> None:
    server, page = begin()
    server.answerer.let()
    ask(page, "Kept?")
    page.wait_for_selector(".ask-on")
    kept = page.url
    server.answerer = StepwiseAnswerer()
    server.stop()
    page.focus("#question")
    page.keyboard.type("Lost?")
    press(page, "Enter")
    page.wait_for_selector("#trouble:has-text('does not respond')")
    assert "Try again" in page.inner_text(".ask-on .problem")
    assert page.input_value("#question") == "Lost?", "nothing that was typed is lost"
    server.start()
    page.wait_for_selector("#trouble p", state="detached")
    page.focus("#question")
    press(page, "Enter")
    page.wait_for_selector("h1:text('Lost?')")
    page.wait_for_selector(".doing:text('Writing a program')")
    server.stop()
    page.wait_for_selector("#trouble p")
    server.start()
    page.wait_for_selector(".verdict:text('Stopped')")
    assert "was restarted before this question was answered; ask again" in page.inner_text(".asked .problem")
    page.click(".again")
    page.wait_for_selector(".picked")
    assert page.input_value("#question") == "Lost?"
    page.goto(kept)
    page.wait_for_selector(".verdict:text('Answered')")
    assert page.locator(".piece").count() > 0


def test_a_key(serve: Serve, open_page: Open, film: Path) -> None:
    server = serve(keys=("right key",))
    page = open_page(server)
    page.keyboard.type("wrong")
    press(page, "Enter")
    page.wait_for_selector("dialog .problem:text('Wrong key.')")
    page.keyboard.type("right key")
    press(page, "Enter")
    page.wait_for_selector("main.home")
    upload(page, film)
    # The browser fetches pictures and films by itself.
    until(page, "document.querySelector('.picked img').naturalWidth > 0")
    server.answerer.let()
    ask(page)
    page.wait_for_selector(".ask-on")
    until(page, "document.querySelector('video').readyState >= 1")
    page.reload()
    page.wait_for_selector(".ask-on")
    assert page.locator("dialog").count() == 0


def test_what_cannot_be_is_said_where_it_was_tried(
    serve: Serve, open_page: Open, film: Path, tmp_path: Path
) -> None:
    page = open_page(serve())
    ask_button = page.locator("form.ask .primary")
    page.fill("#question", "What?")
    ask_button.click()
    page.wait_for_selector("form .problem:text('Choose a video first.')")
    (tmp_path / "notes.mp4").write_text("no film")
    page.set_input_files("#file", tmp_path / "notes.mp4")
    page.wait_for_selector(".chooser .problem:has-text('notes.mp4')")
    assert len(page.inner_text(".chooser .problem").splitlines()) == 1
    small = open_page(serve(video_bytes=1000))
    small.set_input_files("#file", film)
    small.wait_for_selector(".chooser .problem:has-text('The kite.mp4')")
    unknown = open_page(serve(), "#/q/question-of-nobody")
    assert "does not have this question" in unknown.inner_text(".gone")


def test_texts_are_never_markup(serve: Serve, open_page: Open, film: Path, tmp_path: Path) -> None:
    named = tmp_path / "<img src=x onerror='window.hurt=1'>.mp4"
    named.write_bytes(film.read_bytes())
    server = serve()
    page = open_page(server)
    page.set_input_files("#file", named)
    page.wait_for_selector(".picked strong:has-text('<img')")
    server.answerer.let()
    ask(page, world.HOSTILE.replace("\u2028", ""), choices=False)
    page.wait_for_selector(".ask-on")
    press(page, "Escape")
    page.wait_for_selector(".asked-before")
    assert page.evaluate("window.hurt") is None


# ---- how it looks ----------------------------------------------------------------------------------------


def check(page: Any, least: int) -> None:
    """Nothing is wider than the window, and every text is 4.5:1 against what lies behind it."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    height = page.viewport_size["height"]
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        texts = texts_of(page)
        assert len(texts) >= least
        assert [text for text in texts if not text["ratio"] >= 4.5] == [], theme
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})


@pytest.mark.parametrize("width", [390, 1440])
def test_every_state_fits_and_can_be_read(serve: Serve, open_page: Open, film: Path, width: int) -> None:
    server = serve()
    page = open_page(server, viewport={"width": width, "height": 844})
    check(page, 8)
    upload(page, film)
    page.click("text=Add choices")
    check(page, 10)
    server.answerer.let(3)
    page.fill("#question", "What flies over the hill?")
    page.focus("#question")
    press(page, "Enter")
    page.wait_for_selector("[data-line='3'] .call")
    check(page, 20)
    server.answerer.let()
    page.wait_for_selector(".ask-on")
    check(page, 60)
    press(page, "?")
    check(page, 60)
    press(page, "Escape", "Escape")
    page.wait_for_selector(".asked-before")
    server.stop()
    page.fill("#question", "Once more?")
    page.click("form.ask .primary")
    page.wait_for_selector("#trouble p")
    check(page, 12)
    server.start()
