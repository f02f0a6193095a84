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
from tests.support.browser import Open, needs_browser, opening, violations
from tests.support.making_videos import make
from videopro.errors import Cancellation, cancellable
from videopro.methods import EventObserver, last_event
from videopro.question import Question
from videopro.serve import AskRequest, ServeLimits, ServerState, StoredVideo, create_app
from videopro.serve.problems import Problem
from videopro.traces import Trace, VideoRef, evidence

pytestmark = needs_browser

STEPS = 1 + sum(
    2 + len(round.execution.calls) for round in world.refined(VideoRef("", "")).rounds if round.execution
)
"""Of one answer (`StepwiseAnswerer.let`)."""
PLAYED = "[...document.querySelectorAll('video')].some(one => !one.paused)"


class StepwiseAnswerer:
    """Takes the place of `Answerer`: an answer takes as many steps as `let` allows."""

    name, method, is_concurrent = "stepwise", "videopro", False

    def __init__(self) -> None:
        self.own, self.sample, self.converses = None, None, True
        self.known: list[Question] | None = None
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
        video = request.video
        whole = world.refined(VideoRef(str(video.path), video.id, video.id, video.duration))
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

    def offered(self) -> list[dict[str, Any]]:
        about = {"videopro": "Plans a program.", "native": "Looks once."}
        return [{"id": id, "about": text, "open_questions": True} for id, text in about.items()]

    def about(self) -> str | None:
        return None

    def scope_problem(self, video: StoredVideo) -> str | None:
        return None

    def questions(self, video: StoredVideo) -> list[Question] | None:
        return self.known

    def check(self, request: AskRequest) -> None:
        if self.known is not None and request.question not in [each.text for each in self.known]:
            raise Problem(400, "unknown; GET the questions", code="unknown_question")

    def settings(self, request: AskRequest) -> dict[str, Any]:
        return {"method": request.method or "videopro", "model": "stepwise"}

    def identity(self, request: AskRequest) -> dict[str, Any]:
        return dict(world.IDENTITY)

    def has_index(self, video: StoredVideo) -> bool:
        return video.id in self._indexed

    def index(
        self, video: StoredVideo, emit: Callable[[dict[str, Any]], None], cancellation: Cancellation
    ) -> None:
        for done in range(3):
            emit({"type": "progress", "doing": "indexing", "done": done, "total": 3})
            self._step(cancellation)
        self._indexed.add(video.id)


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
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "The kite.mp4"
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
def begin(serve: Serve, open_page: Open, video: Path) -> Callable[..., tuple[PageServer, Any]]:
    """A server, and its page with the video in it."""

    def begin(**limits: Any) -> tuple[PageServer, Any]:
        server = serve(**limits)
        page = open_page(server)
        upload(page, video)
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


def upload(page: Any, video: Path) -> None:
    """From the first page to the conversation about the video."""
    page.wait_for_selector("main.home .drop")
    page.set_input_files("#file", video)
    page.wait_for_selector(f".side h1:text-is('{video.name}')")
    page.wait_for_selector(".side video")


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
    page.wait_for_selector(f".turn h2:text-is('{question}')")


ANSWERED = ".answer.answered .given"


def test_from_a_video_to_an_answer_with_its_evidence(serve: Serve, open_page: Open, video: Path) -> None:
    server = serve()
    page = open_page(server)
    page.wait_for_selector(".library >> text=No videos yet")
    upload(page, video)
    assert "0:20 · 128 × 64" in page.inner_text(".side .about")
    assert page.evaluate("document.activeElement.id") == "question"
    # A question that is asked while the video is indexed waits in the page.
    page.click("text=Index it now")
    server.answerer.let(1)
    page.wait_for_selector(".state-of-index:has-text('1 of 3')")
    assert page.get_attribute(".side .progress", "aria-valuenow") == "33"
    ask(page)
    page.wait_for_selector(".queued:has-text('Waits for the index')")
    assert server.answerer.asked == []
    server.answerer.let(2)
    page.wait_for_selector(".state-of-index:has-text('Indexed')")
    page.wait_for_selector(".answer .doing:text('Writing a program')")
    server.answerer.let(2)
    page.wait_for_selector(".answer .doing:text('Running the program: ')")
    server.answerer.let()
    page.wait_for_selector(ANSWERED)
    assert page.inner_text(ANSWERED).split() == ["A", "a", "red", "kite"]
    # A screen reader says the answer, and no more.
    page.wait_for_selector("[role=status]:text-is('videopro: A. a red kite')")
    (request,) = server.answerer.asked
    assert (request.question, request.choices) == ("What flies over the hill?", world.CHOICES)
    # A piece of evidence plays the video from there: the line of the subtitles at 2 to 3 s.
    page.click(".piece:has-text('See the kite fly.')")
    until(page, "document.querySelector('video').currentTime >= 2")
    assert page.evaluate("document.querySelector('video').currentTime") < 5
    assert "#/v/file-" in page.url


def test_the_details_of_an_answer_grow_while_it_is_made(begin: Begin) -> None:
    server, page = begin()
    ask(page)
    page.wait_for_selector(".answer .doing")
    (asked,) = page.request.get(f"{server.url}v1/videopro/questions").json()["data"]
    page.goto(f"{server.url}#/q/{asked['id']}")
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
    # What the reader does meanwhile stays: an opened call, and a video that plays.
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
    page.wait_for_selector(".live", state="detached")
    assert page.inner_text("li.given .text").startswith("a red kite")
    page.click(".piece:has-text('See the kite fly.')")
    until(page, "document.querySelector('video').currentTime >= 2")
    assert page.url.endswith("?t=2")


def test_questions_can_be_written_before_the_video_is_there(
    serve: Serve, open_page: Open, video: Path
) -> None:
    server = serve()
    page = open_page(server)
    held: list[Any] = []
    page.route("**/v1/files", lambda route: held.append(route) if is_upload(route) else route.continue_())
    page.set_input_files("#file", video)
    page.wait_for_selector(f".side h1:text-is('{video.name}')")
    ask(page, "First?", choices=False)
    ask(page, "Second?", choices=False)
    ask(page, "Not this one?", choices=False)
    page.click(".queued:has-text('Not this one?') >> text=Remove")
    assert page.locator(".queued:has-text('Waits for the upload')").count() == 2
    page.focus("#question")
    page.keyboard.type("A draft")
    # The second one is read in the light of the first.
    held[0].continue_()
    page.wait_for_selector(".turn:has-text('First?') .doing:text('Writing a program')")
    page.wait_for_selector(".queued:has-text('Second?'):has-text('Waits for the answer above')")
    server.answerer.let(STEPS)
    page.wait_for_selector(".turn:has-text('Second?') .doing:text('Writing a program')")
    server.answerer.let()
    page.wait_for_selector(f".turn:has-text('Second?') {ANSWERED}")
    assert page.input_value("#question") == "A draft", "the view stays when the video is there"
    page.fill("#question", "")
    first, second = server.answerer.asked
    assert (first.question, first.earlier) == ("First?", ())
    assert [exchange.question for exchange in second.earlier] == ["First?"]
    page.wait_for_selector(".context:has-text('also reads the 2 questions above')")
    page.click(".context button")
    ask(page, "Alone?", choices=False)
    page.wait_for_selector(f".turn:has-text('Alone?') {ANSWERED}")
    assert server.answerer.asked[2].earlier == ()


def is_upload(route: Any) -> bool:
    return bool(route.request.method == "POST")


def test_another_method_answers_beside_the_first(begin: Begin) -> None:
    server, page = begin()
    server.answerer.let()
    assert page.locator("#method option").all_inner_texts() == ["videopro", "native"]
    assert page.inner_text("#about-method") == "Plans a program."
    ask(page)
    page.wait_for_selector(ANSWERED)
    assert page.input_value(".again select") == "native", "one that was not tried"
    page.focus(".again button")
    press(page, "Enter")
    page.wait_for_selector(".answers > .answered >> nth=1")
    assert page.evaluate("document.activeElement.closest('.answers') !== null"), "the focus stays here"
    assert page.locator(".turn").count() == 1
    names = page.locator(".answers > .answer > header strong").all_inner_texts()
    assert names == ["videopro", "native"]
    left, right = (one.bounding_box() for one in page.locator(".answers > .answer").all())
    assert (left["y"], left["x"] + left["width"] < right["x"]) == (right["y"], True)
    assert [request.earlier for request in server.answerer.asked] == [(), ()]
    # The text that is copied names the question, the answer and its evidence.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(".answer >> nth=0 >> text=Copy")
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[0] == "Question: What flies over the hill?"
    assert "Answer (videopro, confidence 0.90): A. a red kite" in copied
    assert "Evidence: 0:02 – 0:03 See the kite fly." in copied
    other = page.context.new_page()
    other.goto(copied[-1])
    other.wait_for_selector(".verdict:text('Answered')")
    other.close()


def test_what_was_asked_is_found_and_deleted(begin: Begin) -> None:
    server, page = begin()
    server.answerer.let()
    for question in ("Where is the kite?", "Who holds it?", "Why?"):
        ask(page, question, choices=False)
        page.wait_for_selector(f".turn:has-text('{question}') {ANSWERED}")
    page.click(".turn:has-text('Why?') >> text=Delete")
    page.click("dialog >> text=Cancel")
    assert page.locator(".turn").count() == 3
    page.click(".turn:has-text('Why?') >> text=Delete")
    page.click("dialog button.primary")
    page.wait_for_selector(".turn:has-text('Why?')", state="detached")
    assert page.evaluate("document.activeElement.id") == "question"
    # A question that is half written is there again.
    page.keyboard.type("And then")
    press(page, "Escape", "Escape")
    page.wait_for_selector(".library .video-row:has-text('2 questions'):has-text('Who holds it?')")
    assert page.evaluate("document.activeElement.textContent") == "Ask about a video"
    upload_again = page.locator(".library .video-row").count()
    assert upload_again == 1
    page.reload()
    page.wait_for_selector(".video-row")
    id = page.get_attribute(".video-row", "data-id")
    page.goto(f"{server.url}#/v/{id}")
    page.wait_for_selector(".turn >> nth=1")
    assert page.input_value("#question") == "And then"
    # The video goes with its questions.
    page.click(".side >> text=Delete the video")
    assert "Delete The kite.mp4 and its 2 questions?" in page.inner_text("dialog")
    page.click("dialog button.primary")
    page.wait_for_selector(".library >> text=No videos yet")
    for path in ("v1/files", "v1/videopro/questions"):
        assert page.request.get(server.url + path).json()["data"] == []


def test_a_search_finds_questions(serve: Serve, open_page: Open, video: Path, tmp_path: Path) -> None:
    server = serve()
    server.answerer.let()
    page = open_page(server)
    for number in range(4):
        named = tmp_path / f"Part {number}.mp4"
        make(named, world.PICTURES + number, rate=world.RATE)
        upload(page, named)
        ask(page, f"What is number {number}?", choices=False)
        page.wait_for_selector(ANSWERED)
        press(page, "Escape", "Escape")
    page.wait_for_selector(".video-row >> nth=3")
    press(page, "/")
    page.keyboard.type("NUMBER 2")
    page.wait_for_selector(".video-row >> nth=1", state="detached")
    assert page.inner_text(".video-row .name") == "Part 2.mp4"
    page.click(".matches a")
    page.wait_for_selector("h1:text('What is number 2?')")
    assert page.evaluate("document.activeElement.textContent") == "What is number 2?"
    press(page, "Escape")
    page.wait_for_selector(".side h1:text-is('Part 2.mp4')")


def test_a_model_that_knows_its_videos_questions(serve: Serve, open_page: Open, video: Path) -> None:
    server = serve()
    server.answerer.known = [Question("What flies over the hill?", world.CHOICES)]
    server.answerer.converses = False
    server.answerer.let()
    page = open_page(server)
    upload(page, video)
    page.wait_for_selector(".known:has-text('and no others')")
    ask_button = page.locator("form.ask .primary")
    page.fill("#question", "And what colour is the star there?")
    ask_button.click()
    page.wait_for_selector("form .problem:has-text('answers the questions above only')")
    assert page.input_value("#question") == "And what colour is the star there?"
    page.click(".known button")
    ask_button.click()
    page.wait_for_selector(ANSWERED)
    assert [request.question for request in server.answerer.asked] == ["What flies over the hill?"]
    assert "reads one question at a time" in page.inner_text(".context")


def test_an_upload_is_cancelled(serve: Serve, open_page: Open, video: Path) -> None:
    page = open_page(serve())
    page.route("**/v1/files", lambda route: None if is_upload(route) else route.continue_())
    page.set_input_files("#file", video)
    page.click(".bar .back")
    page.click(".video-row:has-text('The kite.mp4'):has-text('uploading')")
    page.click(".side >> text=Cancel")
    page.wait_for_selector(".drop")
    assert page.locator(".problem:visible, .video-row").count() == 0
    page.set_input_files("#file", video)
    page.click(".bar .back")
    page.wait_for_selector(".video-row:has-text('uploading')")
    page.set_input_files("#file", video)
    page.wait_for_selector("dialog:has-text('Cancel the upload of The kite.mp4')")
    page.unroute_all(behavior="ignoreErrors")
    page.click("dialog button.primary")
    page.wait_for_selector(".side video")


def test_an_upload_that_is_lost_goes_on_with_its_questions(
    begin: Begin, open_page: Open, video: Path
) -> None:
    server, _ = begin()
    server.answerer.let()
    page = open_page(server)
    page.route("**/v1/files", lambda route: route.abort() if is_upload(route) else route.continue_())
    page.set_input_files("#file", video)
    page.wait_for_selector(".side .about:has-text('The connection was lost')")
    ask(page, "Kept?", choices=False)
    page.unroute_all(behavior="ignoreErrors")
    page.click(".side button:text('Try again')")
    page.wait_for_selector(f".turn:has-text('Kept?') {ANSWERED}")


def test_a_question_is_stopped(begin: Begin) -> None:
    _, page = begin()
    ask(page, "Never?", choices=False)
    page.click(".answer .stop")
    page.wait_for_selector(".answer.stopped .problem:has-text('Stopped: stopped after')")
    assert page.locator(".answer.stopped .took").count() == 0


def test_a_server_that_is_started_again(begin: Begin) -> None:
    server, page = begin()
    server.answerer.let()
    ask(page, "Kept?", choices=False)
    page.wait_for_selector(ANSWERED)
    server.answerer = StepwiseAnswerer()
    server.stop()
    page.focus("#question")
    page.keyboard.type("Lost?")
    press(page, "Enter")
    page.wait_for_selector("#trouble:has-text('does not answer')")
    assert "Try again" in page.inner_text("form .problem")
    assert page.input_value("#question") == "Lost?", "nothing that was typed is lost"
    server.start()
    page.wait_for_selector("#trouble p", state="detached")
    page.focus("#question")
    press(page, "Enter")
    page.wait_for_selector(".turn:has-text('Lost?') .doing:text('Writing a program')")
    server.stop()
    page.wait_for_selector("#trouble p")
    server.start()
    stopped = ".turn:has-text('Lost?') .answer.stopped"
    page.wait_for_selector(f"{stopped} :text('was restarted before this question was answered; ask again')")
    server.answerer.let()
    assert page.input_value(f"{stopped} .again select") == "videopro", "the same method again"
    page.click(f"{stopped} .again button")
    page.wait_for_selector(f".turn:has-text('Lost?') {ANSWERED}")


def test_a_key(serve: Serve, open_page: Open, video: Path) -> None:
    server = serve(keys=("right key",))
    page = open_page(server)
    page.keyboard.type("wrong")
    press(page, "Enter")
    page.wait_for_selector("dialog .problem:text('Wrong key.')")
    page.keyboard.type("right key")
    press(page, "Enter")
    page.wait_for_selector("main.home")
    upload(page, video)
    server.answerer.let()
    ask(page)
    page.wait_for_selector(ANSWERED)
    # The browser fetches pictures and videos by itself.
    until(page, "document.querySelector('video').readyState >= 1")
    page.reload()
    page.wait_for_selector(ANSWERED)
    assert page.locator("dialog").count() == 0
    press(page, "Escape", "Escape")
    page.wait_for_selector(".video-row img")
    until(page, "document.querySelector('.video-row img').naturalWidth > 0")


def test_what_cannot_be_is_said_where_it_was_tried(
    serve: Serve, open_page: Open, video: Path, tmp_path: Path
) -> None:
    page = open_page(serve())
    (tmp_path / "notes.mp4").write_text("no video")
    page.set_input_files("#file", tmp_path / "notes.mp4")
    page.wait_for_selector(".gone:has-text('notes.mp4')")
    assert page.inner_text(".gone h1").count("notes.mp4") == 1
    small = open_page(serve(video_bytes=1000))
    small.set_input_files("#file", video)
    small.wait_for_selector(".gone:has-text('The kite.mp4: the limit of this server is')")
    for address, what in (("q/question-of-nobody", "question"), ("v/file-of-nobody", "video")):
        unknown = open_page(serve(), f"#/{address}")
        unknown.wait_for_selector(f".gone:has-text('does not have this {what}')")


def test_texts_are_never_markup(serve: Serve, open_page: Open, video: Path, tmp_path: Path) -> None:
    named = tmp_path / "<img src=x onerror='window.hurt=1'>.mp4"
    named.write_bytes(video.read_bytes())
    server = serve()
    page = open_page(server)
    page.set_input_files("#file", named)
    page.wait_for_selector(".side h1:has-text('<img')")
    server.answerer.let()
    page.fill("#question", world.HOSTILE.replace("\u2028", ""))
    page.click("form.ask .primary")
    page.wait_for_selector(ANSWERED)
    page.click(".answer >> text=Details")
    page.wait_for_selector(".verdict:text('Answered')")
    assert page.evaluate("window.hurt") is None


# ---- how it looks ----------------------------------------------------------------------------------------


def check(page: Any) -> None:
    """Nothing is wider than the window, and axe finds nothing in either theme."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_every_state_fits_and_can_be_used_by_everybody(
    serve: Serve, open_page: Open, video: Path, width: int
) -> None:
    server = serve()
    page = open_page(server, viewport={"width": width, "height": 844})
    check(page)
    upload(page, video)
    page.click("text=Add choices")
    check(page)
    page.keyboard.type("a kite")
    ask(page)
    page.wait_for_selector(".answer .doing:text('Writing a program')")
    check(page)
    server.answerer.let()
    page.wait_for_selector(ANSWERED)
    page.click(".again button")
    page.wait_for_selector(".answers > .answered >> nth=1")
    check(page)
    page.click(".answer >> text=Delete")
    check(page)
    page.click("dialog >> text=Cancel")
    page.click(".answer >> text=Details")
    page.wait_for_selector(".verdict:text('Answered')")
    check(page)
    press(page, "?")
    check(page)
    press(page, "Escape", "Escape")
    page.wait_for_selector(".side h1")
    press(page, "Escape", "Escape")
    page.wait_for_selector(".video-row")
    check(page)
    server.stop()
    page.click(".video-row")
    page.wait_for_selector("#trouble p")
    check(page)
    server.start()
