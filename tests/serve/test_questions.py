"""Questions that wait in line, client after client, run, are stopped, time out, and are found again after a
restart."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.colours import ColourBackbone, wait_for
from tests.support.number_encoder import NumberEncoder
from tests.support.served import QUESTION, World
from videopro.errors import ConfigError
from videopro.modules import loading
from videopro.runs import AskedRun
from videopro.serve import Answerer
from videopro.serve.line import FairLine, Ticket
from videopro.serve.problems import Problem


def events(world: World, question: str, **headers: str | bytes) -> list[dict[str, Any]]:
    reply = world.client.get(f"/v1/videopro/questions/{question}/events", headers=headers)
    lines = [line for line in reply.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def state(world: World, question: str) -> str:
    listed = world.client.get("/v1/videopro/questions").json()["data"]
    return next(each["state"] for each in listed if each["id"] == question)


@pytest.fixture
def busy(tmp_path: Path) -> Any:
    """A server that answers one question at a time."""
    world = World(tmp_path, at_once=1, waiting=2)
    yield world
    world.close()


def test_who_waits_knows_the_place_and_moves_up(busy: World) -> None:
    video = busy.video()
    first = busy.ask(video, question="Which colour? (slow)")
    assert busy.backbone.begun.acquire(timeout=20)
    second, third = busy.ask(video), busy.ask(video)
    refused = busy.client.post("/v1/videopro/questions", json={**QUESTION, "file_id": video})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    assert [state(busy, each) for each in (first, second, third)] == ["running", "waiting", "waiting"]
    page = busy.client.get(f"/v1/videopro/questions/{second}").json()
    assert (page["running"], page["state"], page["rounds"]) == (True, "running", [])
    in_use = busy.client.delete(f"/v1/files/{video}")
    assert (in_use.status_code, in_use.json()["error"]["code"]) == (409, "video_in_use")
    metrics = busy.client.get("/metrics").text
    assert "videopro_questions_running 1.0" in metrics
    assert "videopro_questions_waiting 2.0" in metrics
    busy.backbone.go_on.set()
    assert [event["position"] for event in events(busy, third) if event["type"] == "queued"] == [2, 1]
    assert [event["position"] for event in events(busy, second) if event["type"] == "queued"] == [1]
    assert events(busy, first)[-1]["choice"] == "green"
    assert 'videopro_questions_total{outcome="answered"} 3.0' in busy.client.get("/metrics").text


def test_a_question_is_stopped_while_it_runs_and_while_it_waits(busy: World) -> None:
    video = busy.video()
    running, waiting = busy.ask(video, question="Which? (slow)"), busy.ask(video)
    assert busy.backbone.begun.acquire(timeout=20)
    for question, says in ((waiting, "stopped in the queue after "), (running, "stopped after ")):
        assert busy.client.post(f"/v1/videopro/questions/{question}/stop").json()["stopped"]
        last = events(busy, question)[-1]
        assert (last["type"], last["error"]["type"]) == ("error", "Cancelled")
        assert re.fullmatch(rf"{says}\d+\.\d s", last["error"]["message"])
        # What its models did is not known.
        assert [*last["cost"]] == ["seconds"]
        assert (last["cost"]["seconds"] > 0) == (question == running)
        assert state(busy, question) == "stopped"
    assert busy.state.line.wait_until_idle(20)
    assert len(busy.backbone.ended) == 1
    page = busy.client.get(f"/v1/videopro/questions/{running}").json()
    assert (page["running"], page["state"], page["error"]["type"]) == (False, "stopped", "Cancelled")
    assert page["error"]["message"] == last["error"]["message"]
    # Of one time, written with 4 decimals and with 3: 0.02346 s reads 0.0235 and 0.023.
    assert page["cost"]["seconds"] == pytest.approx(last["cost"]["seconds"], abs=1e-3)
    assert not list((busy.folder / "out" / "answers").glob("*/traces.jsonl")), "no answer to keep"


def test_a_question_has_a_time_limit(tmp_path: Path) -> None:
    world = World(tmp_path, seconds=0.05)
    last = events(world, world.ask(world.video(), question="Which? (slow)"))[-1]
    assert re.fullmatch(r"stopped after \d+\.\d s: the time limit is 0\.05 s", last["error"]["message"])
    assert 0.05 <= last["cost"]["seconds"] < 20
    assert world.state.line.wait_until_idle(20)


def test_events_go_on_after_the_last_one_that_a_client_got(busy: World) -> None:
    video = busy.video()
    question = busy.ask(video)
    every = events(busy, question)
    assert len(every) > 1
    assert events(busy, question, **{"Last-Event-ID": "0"}) == every[1:]
    for none in ("nonsense", "9" * 5000, "-1", "²"):
        assert events(busy, question, **{"Last-Event-ID": none.encode("latin-1")}) == every
    assert events(busy, question, **{"Last-Event-ID": "999"}) == []
    for unknown in ("nothing", "../../etc/passwd", "x" * 3000):
        for call in (busy.client.get, busy.client.delete):
            reply = call(f"/v1/videopro/questions/{unknown}")
            assert (reply.status_code, "error" in reply.json()) == (404, True)
    wrong = busy.client.post("/v1/videopro/questions", json={**QUESTION, "file_id": video, "follows": "none"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "no_question")


def test_the_questions_about_a_video(busy: World, tmp_path: Path) -> None:
    video, other = busy.video(), busy.video("red")

    def listed(world: World, **about: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = world.client.get("/v1/videopro/questions", params=about).json()["data"]
        return rows

    first = busy.ask(video)
    answer = events(busy, first)[-1]
    page = busy.answered(busy.ask(other, method="program"))
    slow, waiting = busy.ask(video, question="Which? (slow)"), busy.ask(video, method="dvd")
    assert busy.backbone.begun.acquire(timeout=20)
    rows = listed(busy, file_id=video)
    assert [(row["id"], row["state"], row["method"], row["question"]) for row in rows] == [
        (waiting, "waiting", "dvd", QUESTION["question"]),
        (slow, "running", "native", "Which? (slow)"),
        (first, "answered", "native", QUESTION["question"]),
    ]
    kept = ("letter", "choice", "text", "withheld", "confidence", "notes")
    assert rows[2] == {
        **QUESTION,
        "id": first,
        "time": rows[2]["time"],
        "file_id": video,
        "video": "green.mp4",
        "state": "answered",
        "method": "native",
        "error": None,
        "seconds": answer["cost"]["seconds"],
        "cost": answer["cost"],
        "answer": {name: answer[name] for name in kept},
        "evidence": busy.answered(first)["answer_evidence"],
    }
    assert (rows[2]["answer"]["choice"], [each["kind"] for each in rows[2]["evidence"]]) == (
        *("green", ["frames"]),
    )
    nothing = {"cost": None, "answer": None, "error": None, "evidence": []}
    assert all(row.items() >= nothing.items() and 0 < row["seconds"] < 60 for row in rows[:2])
    (failed,) = listed(busy, file_id=other)
    assert (failed["state"], failed["method"], page["method"]) == ("failed", "program", "program")
    assert failed["error"] == {name: page["error"][name] for name in ("type", "message")}
    assert [row["id"] for row in listed(busy)] == [waiting, slow, failed["id"], first]
    assert not any("evidence" in row for row in listed(busy))
    # As another server that begins in its folder has them.
    after = World(tmp_path)
    assert listed(after, file_id=video)[2] == rows[2]
    assert [(row["state"], row["method"]) for row in listed(after)[:2]] == [
        *(("stopped", "dvd"), ("stopped", "native")),
    ]
    busy.client.delete(f"/v1/files/{other}")
    assert listed(busy, file_id=other) == [{**failed, "video": None}]


def test_a_deleted_question_is_gone_from_the_disk(busy: World, tmp_path: Path) -> None:
    video, other = busy.video(), busy.video("red")
    texts = ("Which secret colour?", "Which secret? (slow)", "Which secret waits?")
    answered = busy.ask(video, question=texts[0])
    busy.answered(answered)
    kept = busy.ask(video)
    page = busy.answered(kept)
    running, waiting = busy.ask(video, question=texts[1]), busy.ask(video, question=texts[2])
    assert busy.backbone.begun.acquire(timeout=20)
    for question in (answered, waiting, running):
        path = f"/v1/videopro/questions/{question}"
        gone = {"id": question, "object": "videopro.question", "deleted": True}
        assert busy.client.delete(path).json() == gone
        assert {busy.client.get(path).status_code, busy.client.delete(path).status_code} == {404}
    assert [row["id"] for row in busy.client.get("/v1/videopro/questions").json()["data"]] == [kept]
    # The run was open, and stays so for other answers.
    about_other = busy.ask(other)
    busy.answered(about_other)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert not [file for file in files if b"secret" in file.read_bytes()]
    busy.close()
    after = World(tmp_path, at_once=1)
    assert after.client.get(f"/v1/videopro/questions/{kept}").json()["final"] == page["final"]
    # One of an earlier process, and all of a video with it.
    for question in (after.ask(video, question="Which? (slow)"), after.ask(video)):
        assert state(after, question) in ("waiting", "running")
    assert after.client.delete(f"/v1/files/{video}?questions=true").json()["deleted"]
    rows = after.client.get("/v1/videopro/questions").json()["data"]
    assert ([row["id"] for row in rows], len(after.state.videos.all())) == ([about_other], 1)
    after.close()
    (row,) = World(tmp_path).client.get("/v1/videopro/questions").json()["data"]
    assert (row["id"], row["state"]) == (about_other, "answered")


def test_a_restart_finds_videos_and_answers(tmp_path: Path) -> None:
    before = World(tmp_path)
    video = before.video()
    question = before.ask(video)
    told = events(before, question)
    page = before.client.get(f"/v1/videopro/questions/{question}").json()
    (listed,) = before.client.get("/v1/videopro/questions").json()["data"]
    before.close()
    after = World(tmp_path)
    assert [each["id"] for each in after.client.get("/v1/files").json()["data"]] == [video]
    assert after.client.get("/v1/videopro/questions").json()["data"] == [listed]
    again = after.client.get(f"/v1/videopro/questions/{question}").json()
    passing = {"seconds": 0, "beginnings": 0}
    assert {**again, **passing} == {**page, **passing}
    kinds = [event["type"] for event in events(after, question)]
    assert kinds == [event["type"] for event in told if event["type"] in ("evidence", "answer")]
    assert events(after, question)[-1] == told[-1]
    # The answers are a run that the viewer and reports open.
    (run,) = (tmp_path / "out" / "answers").iterdir()
    (trace,) = AskedRun(run).read()
    assert (trace.question_id, trace.final and trace.final.letter, trace.video.key) == (question, "B", video)
    assert re.fullmatch(r"[0-9a-f]{16}", run.name)


def test_methods_offer_numbers_and_choices_only(busy: World) -> None:
    told = busy.client.get("/v1/videopro/methods").json()
    offered = {method["id"]: {option["name"] for option in method["options"]} for method in told["data"]}
    assert told["default"] == "native"
    for method in told["data"]:
        assert re.fullmatch(r"[A-Z][^\n]{30,90}\.", method["about"]), method["id"]
    assert {"native", "program", "adaptive", "videopro", "videoagent", "dvd", "vca"} == {*offered}
    assert {"frames", "fps", "subtitles"} <= offered["native"]
    assert {"tau", "temperature", "planner_frames"} <= offered["videopro"]
    for names in offered.values():
        dangerous = {"planner", "prompts", "ocr", "encoder", "speech", "answerer", "system", "api_key_env"}
        # What one question takes of the machine with no number for its bound.
        dangerous |= {"max_parallel", "module_seconds", "preset", "clip_seconds", "resolution", "buffer"}
        assert not names & dangerous


def test_lvagent_is_offered_where_the_operator_names_its_agents() -> None:
    def offered(**settings: Any) -> list[str]:
        return Answerer("colours", load=lambda *_, **__: ColourBackbone("colours"), **settings).method_names

    assert "lvagent" in offered(
        method="lvagent", options={"agents": ["self", "server:b@http://b.example/v1"]}
    )
    with pytest.raises(ConfigError, match="lvagent: set the agents"):
        offered(methods=["native", "lvagent"])


def test_no_client_sets_more_than_the_operator(tmp_path: Path) -> None:
    """Of the operator's method what its command says, of others their defaults (those of the papers), of
    frames that are unset what the model takes: 4."""
    own = {"max_rounds": 2, "tau": "0.5", "planner_frames": 3, "calls": 8}
    answerer = Answerer(
        "colours",
        method="videopro",
        options=own,
        methods=("native", "videoagent", "dvd", "vca", "program"),
        load=lambda model, **_: ColourBackbone(model, is_concurrent=True),
    )
    world = World(tmp_path, answerer=answerer)
    video = world.video()
    bounds: dict[str, dict[str, float]] = {
        "videopro": {"max_rounds": 2, "tau": 0.5, "planner_frames": 3, "max_new_tokens": 1024, "calls": 8},
        "program": {"planner_frames": 4, "max_new_tokens": 1024},
        "native": {"frames": 4},
        "videoagent": {"max_rounds": 3, "first_frames": 5, "threshold": 3, "max_new_tokens": 1024},
        "dvd": {"fps": 2, "max_tool_steps": 15, "max_new_tokens": 1024},
        "vca": {"max_rounds": 16, "borders": 6, "max_new_tokens": 1024},
    }
    told = world.client.get("/v1/videopro/methods").json()["data"]
    assert bounds == {
        method["id"]: {each["name"]: each["maximum"] for each in method["options"] if "maximum" in each}
        for method in told
    }

    def refused(method: str, options: dict[str, Any]) -> dict[str, Any]:
        asked = {**QUESTION, "file_id": video, "method": method, "options": options}
        content = json.dumps(asked)  # NaN too, which httpx refuses to send.
        headers = {"Content-Type": "application/json"}
        reply = world.client.post("/v1/videopro/questions", content=content, headers=headers)
        assert reply.status_code == 400, reply.text
        error: dict[str, Any] = reply.json()["error"]
        return error

    for method, options in bounds.items():
        for name, most in options.items():
            for above in (most + 1, 10**400, float("inf"), float("nan")):
                error = refused(method, {name: above})
                assert (error["code"], error["param"]) == ("above_limit", f"videopro.options.{name}")
                assert f"the maximum here is {most:g}" in error["message"]

    assert (
        "'lvagent' is not available here; choose one of native, program" in refused("lvagent", {})["message"]
    )
    # Less is the client's to choose, and null is what the operator has.
    page = world.answered(world.ask(video, method="native", options={"frames": 2, "fps": None}))
    assert (page["final"]["letter"], page["answer_evidence"][0]["kind"]) == ("B", "frames")
    assert len(page["rounds"][0]["calls"][0]["frames"]) == 2
    world.close()


@pytest.mark.parametrize("method", ["videopro", "videoagent"])
def test_the_models_of_a_method_stay_when_clients_set_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    loaded: list[str] = []

    def load_encoder(name: str, *_: Any, **__: Any) -> NumberEncoder:
        loaded.append(name)
        return NumberEncoder()

    monkeypatch.setattr(loading, "load_encoder", load_encoder)
    parts = {} if method == "videoagent" else {"text_encoder": "none", "ocr": "none", "detector": "none"}
    answerer = Answerer(
        "colours",
        method=method,
        options={"encoder": "clip:numbers", **parts},
        load=lambda model, **_: ColourBackbone(model, is_concurrent=True, writes=lambda _: "nothing"),
    )
    world = World(tmp_path, answerer=answerer)
    video = world.video()
    for number in range(3):
        world.answered(world.ask(video, options={"temperature": number / 10, "max_new_tokens": 100 + number}))
    assert loaded == ["clip:numbers"]
    if method == "videopro":  # Other methods that write programs search with the operator's models, too.
        world.answered(world.ask(video, method="program"))
        assert loaded == ["clip:numbers"] * 2
    world.close()


def test_a_question_that_a_killed_server_left_is_read_without_a_complaint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = World(tmp_path)
    question = killed.ask(killed.video(), question="Which? (slow)")
    # Under way in one server, and so left by another that begins in its folder.
    assert state(World(tmp_path), question) == "stopped"
    killed.close()
    assert capsys.readouterr().err == ""


# ---- the line ------------------------------------------------------------------------------------------


class Turns:
    """Tickets that stay where they are until they are told to end."""

    def __init__(self, line: FairLine) -> None:
        self.line = line
        self.began: list[str] = []
        self.places: dict[str, list[int]] = {}
        self.tickets: dict[str, Ticket] = {}
        self._ends: dict[str, threading.Event] = {}

    def enter(self, client: str, name: str) -> None:
        self._ends[name] = threading.Event()
        self.places[name] = []

        def start() -> None:
            self.began.append(name)
            assert self._ends[name].wait(20)

        self.tickets[name] = self.line.enter(client, start, self.places[name].append)

    def end(self, name: str, then: Callable[[], bool]) -> None:
        self._ends[name].set()
        wait_for(then)


def test_from_client_to_client_the_first_question_goes_next() -> None:
    turns = Turns(FairLine(1, 100))
    turns.enter("many", "m1")
    wait_for(lambda: turns.began == ["m1"])
    for name in ("m2", "m3", "m4"):
        turns.enter("many", name)
    turns.enter("one", "o1")
    turns.enter("two", "t1")
    turns.enter("two", "t2")
    # By hand: the clients' turns are many, one, two; then many and two again; then many.
    order = ["m1", "m2", "o1", "t1", "m3", "t2", "m4"]
    places = {name: told[-1] for name, told in turns.places.items() if told}
    assert places == {name: place for place, name in enumerate(order) if place}
    assert turns.places["m4"] == [3, 4, 5, 6]  # moved back by those who had not had their turn

    for number, name in enumerate(order[:-1], start=2):
        turns.end(name, lambda number=number: len(turns.began) == number)  # type: ignore[misc]
    assert turns.began == order
    assert turns.places["t2"] == [5, 4, 3, 2, 1]
    turns.end("m4", lambda: turns.line.running == 0)


def test_who_leaves_makes_room_and_too_many_are_refused() -> None:
    turns = Turns(FairLine(2, 2))
    for name in "abcd":
        turns.enter("client", name)
    wait_for(lambda: sorted(turns.began) == ["a", "b"])
    with pytest.raises(Problem, match=r"the queue is full \(2 questions\); try again") as refused:
        turns.enter("client", "e")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "10"})
    # Who has none in the line is let in, within bounds.
    for name in "fg":
        turns.enter(name, name)
    for client in ("f", "h"):
        with pytest.raises(Problem, match=r"the queue is full \(4 questions\)"):
            turns.enter(client, "i")
    for name in "fg":
        assert turns.line.leave(turns.tickets[name])
    assert turns.line.leave(turns.tickets["c"])
    assert not turns.line.leave(turns.tickets["c"]), "gone"
    assert not turns.line.leave(turns.tickets["a"]), "its turn has come"
    # Behind the first of each other client while these were there.
    assert turns.places["d"] == [2, 3, 4, 3, 2, 1]
    assert (turns.line.running, turns.line.waiting) == (2, 1)
    turns.end("a", lambda: turns.began[-1] == "d")
    turns.end("b", lambda: turns.line.running == 1)
    turns.end("d", lambda: turns.line.wait_until_idle(20))


def test_a_question_that_breaks_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda about: shown.set())
    line, is_done = FairLine(1, 0), threading.Event()

    def broken() -> None:
        raise SystemExit

    line.enter("a", broken)
    assert line.wait_until_idle(20)
    assert shown.wait(20)
    line.enter("a", is_done.set)
    assert is_done.wait(20)
