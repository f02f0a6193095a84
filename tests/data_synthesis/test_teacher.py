"""An API teacher over real HTTP: every kind of failure, nothing lost, nothing paid twice, caps that hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_cases import without_waiting
from tests.support.stub_server import StubFault, StubServer, completion, text_of
from videopro.backbones.base import Sampling
from videopro.data_synthesis.teacher import (
    REFUSALS_IN_A_ROW,
    CapReached,
    Prices,
    Refusal,
    ReplyLog,
    Teacher,
    TeacherBudget,
    read_teacher_usage,
)
from videopro.errors import BackboneError, RunError
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.methods.planners.server import ApiPlanner
from videopro.pocket.teacher.teacher import PocketTeacher
from videopro.question import Question

KEY = "sk-very-secret-key"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    without_waiting(monkeypatch)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("TEACHER_KEY", KEY)


def request(number: int, prompt: str = "Write.") -> PlanRequest:
    return PlanRequest("plan_program", f"{prompt} {number}", Question("Which?", ("a", "b")), seed=number)


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """Says what it was asked; 100 tokens in, 10 out."""
    made = completion(f"reply to {text_of(body)}", None, prompt_tokens=100)
    made["usage"]["completion_tokens"] = 10
    return made


def planner_at(stub: StubServer, **settings: Any) -> ApiPlanner:
    given: dict[str, Any] = {"api_key_env": "TEACHER_KEY"}
    return ApiPlanner(f"api:served@{stub.url}", **{**given, **settings})


class Setting:
    """A teacher with its log in a folder; opening it again is what a resumed command does."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "replies.jsonl"
        self.opened: list[Teacher] = []

    def teacher(self, planner: Planner, budget: TeacherBudget | None = None, **settings: Any) -> Teacher:
        budget = budget or TeacherBudget()
        log = ReplyLog(self.path, budget)
        log.load()
        made = Teacher(planner, budget, log, **settings)
        self.opened.append(made)
        return made

    def close(self) -> None:
        for teacher in self.opened:
            teacher.close()
        self.opened = []


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.close()


def texts(got: list[Any]) -> list[str]:
    return [each.text if isinstance(each, PlannerReply) else type(each).__name__ for each in got]


def replies(count: int) -> list[str]:
    return [f"reply to Write. {number}" for number in range(count)]


# ---- faults ------------------------------------------------------------------------------------------------

FAULTS = (
    StubFault(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "0"}),
    StubFault(500, {"error": {"message": "oops"}}),
    StubFault(503, b"<html>busy</html>"),
    StubFault(200, {}, delay=2.0),
    StubFault(200, b"<html>hello</html>"),
    StubFault(200, {"object": "chat.completion", "choices": []}),
    StubFault(200, completion("half of a reply", None), cut=True),
)


def test_transient_failures_are_retried_and_no_reply_is_lost(setting: Setting) -> None:
    with StubServer(reply, key=KEY) as stub:
        stub.faults = [fault for fault in FAULTS for _ in range(2)]
        teacher = setting.teacher(planner_at(stub, timeout=1.0), concurrency=4)
        assert texts(teacher.ask([request(i) for i in range(30)])) == replies(30)
        assert len(stub.chats) == 30 + 2 * len(FAULTS)
        assert stub.peak <= 4
        # Tries that failed are not billed.
        assert teacher.budget.spent.requests == 30


def test_a_refused_request_does_not_fail_the_others(setting: Setting) -> None:
    """Refused for its length; a reply without text, which is paid for all the same."""

    def picky(body: dict[str, Any]) -> Any:
        if "long" in text_of(body):
            return StubFault(400, {"error": {"message": "the context is too long"}})
        if "think" in text_of(body):
            made = completion(None, None, finish="length", prompt_tokens=50)
            made["usage"]["completion_tokens"] = 4000
            return made
        return reply(body)

    with StubServer(picky, key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub))
        got = teacher.ask([request(0), request(1, "too long"), request(2, "think"), request(3)])
        assert texts(got) == ["reply to Write. 0", "Refusal", "Refusal", "reply to Write. 3"]
        assert isinstance(got[1], Refusal)
        assert "the context is too long" in got[1].reason
        spent = teacher.budget.spent
        assert (spent.requests, spent.refused) == (4, 2)
        assert (spent.tokens_in, spent.tokens_out) == (250, 4020)
        setting.close()
        assert read_teacher_usage(setting.path) == spent
        # Asked again: the replies are there, the refusals are tried again.
        again = setting.teacher(planner_at(stub))
        assert texts(again.ask([request(0), request(1, "too long"), request(3)])) == [
            *("reply to Write. 0", "Refusal", "reply to Write. 3")
        ]
        assert len(stub.chats) == 5


def test_repeated_refusals_stop_the_run(setting: Setting) -> None:
    with StubServer(lambda body: StubFault(400, {"error": {"message": "bad field 'x'"}}), key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub), concurrency=1)
        with pytest.raises(RunError, match="bad field 'x'"):
            teacher.ask([request(i) for i in range(100)])
        assert len(stub.chats) == REFUSALS_IN_A_ROW


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_teacher_that_refuses_everything_stops_the_run_and_its_replies_are_kept(
    setting: Setting, status: int
) -> None:
    with StubServer(reply, key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub), concurrency=1)
        assert texts(teacher.ask([request(0), request(1)])) == ["reply to Write. 0", "reply to Write. 1"]
        stub.reply = lambda body: StubFault(status, {"error": {"message": "not today"}})
        with pytest.raises(RunError, match="re-run the same command to resume"):
            teacher.ask([request(i) for i in range(2, 40)])
        tried = len(stub.chats)
        assert tried <= 2 + 5, "the others were not tried one by one"
        setting.close()
        stub.reply = reply
        again = setting.teacher(planner_at(stub))
        assert texts(again.ask([request(i) for i in range(40)]))[39] == "reply to Write. 39"
        assert len(stub.chats) == tried + 38


def test_fields_that_a_model_refuses_are_left_out_by_all_threads(setting: Setting) -> None:
    """Several requests learn of it at the same time; none of them counts as refused."""
    barrier = threading.Barrier(4, timeout=5)

    def picky(body: dict[str, Any]) -> Any:
        if "temperature" in body:
            barrier.wait()
            return StubFault(400, {"error": {"message": "Unsupported value: 'temperature'"}})
        return reply(body)

    with StubServer(picky, key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub), concurrency=4)
        got = teacher.ask([request(i) for i in range(4)])
        assert texts(got) == replies(4)
        assert teacher.budget.spent.refused == 0


# ---- what was paid for -------------------------------------------------------------------------------------


def test_a_reply_is_asked_for_once(setting: Setting) -> None:
    """Another seed, kind or prompt is another request."""
    count = iter(range(100))
    with StubServer(lambda body: completion(f"number {next(count)}", None), key=KEY) as stub:
        first = setting.teacher(planner_at(stub), concurrency=1)
        wanted = [request(0), request(1), PlanRequest("bug_fix", "Write. 0", request(0).question, seed=0)]
        said = texts(first.ask(wanted))
        assert len(set(said)) == 3
        setting.close()
        # A killed writer's torn line is cut.
        with setting.path.open("ab") as file:
            file.write(b'{"key": "half')
        again = setting.teacher(planner_at(stub))
        assert texts(again.ask(wanted)) == said
        assert len(stub.chats) == 3
        assert again.budget.spent.requests == 3
        setting.close()
        # Another temperature is another teacher.
        other = setting.teacher(planner_at(stub, sampling=Sampling(temperature=0.1)))
        assert texts(other.ask(wanted)) != said


def test_the_key_is_never_stored_or_printed(setting: Setting, capfd: pytest.CaptureFixture[str]) -> None:
    def leaky(body: dict[str, Any]) -> Any:
        if "long" in text_of(body):
            return StubFault(400, {"error": {"message": f"too long, said {KEY}"}})
        return reply(body)

    with StubServer(leaky, key=KEY) as stub:
        stub.faults = [StubFault(500, {"error": {"message": KEY}})]
        teacher = setting.teacher(planner_at(stub))
        teacher.ask([request(0), request(1, "long")])
    captured = capfd.readouterr()
    assert KEY not in setting.path.read_text() + captured.out + captured.err
    assert "[key]" in setting.path.read_text()


def test_two_commands_find_each_others_replies(setting: Setting) -> None:
    with StubServer(reply, key=KEY) as stub:
        first, second = (setting.teacher(planner_at(stub)) for _ in range(2))
        first.ask([request(i) for i in range(3)])
        assert texts(second.ask([request(i) for i in range(5)])) == replies(5)
        first.ask([request(4)])
        assert len(stub.chats) == 5
    assert first.budget.spent.requests == second.budget.spent.requests == 5


def test_a_broken_line_is_told_and_its_reply_asked_for_again(
    setting: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    with StubServer(reply, key=KEY) as stub:
        setting.teacher(planner_at(stub)).ask([request(0), request(1)])
        first, _ = setting.path.read_text().splitlines(keepends=True)
        setting.path.write_text(first + '{"key": "a"}\n' + "9" * 400 + "\n")
        teacher = setting.teacher(planner_at(stub))
        assert texts(teacher.ask([request(0), request(1)])) == ["reply to Write. 0", "reply to Write. 1"]
    assert len(stub.chats) == 3
    said = capfd.readouterr().err
    assert (
        f"{setting.path}: 2 lines cannot be read and were set aside: line 2 (no reply: 'tokens_in')" in said
    )
    assert "line 3 (no reply: 999" in said
    assert read_teacher_usage(setting.path).requests == 2
    assert setting.path.read_text().startswith(first + '{"key": "a"}\n')


def test_replies_of_a_free_teacher_are_not_stored(setting: Setting) -> None:
    teacher = setting.teacher(PocketTeacher(), TeacherBudget(max_requests=0))
    asked = PlanRequest("plan", "P", Question("How is the weather?", ("a", "b")))
    (written,) = teacher.ask([asked])
    assert isinstance(written, PlannerReply)
    assert setting.path.read_text() == ""


# ---- caps --------------------------------------------------------------------------------------------------


def test_the_request_cap_holds_over_all_commands(setting: Setting) -> None:
    with StubServer(reply, key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub), TeacherBudget(max_requests=5), concurrency=8)
        got = teacher.ask([request(i) for i in range(12)])
        assert len(stub.chats) == 5
        assert sum(reply is None for reply in got) == 7
        setting.close()
        again = setting.teacher(planner_at(stub), TeacherBudget(max_requests=5), concurrency=8)
        assert sum(reply is None for reply in again.ask([request(i) for i in range(12)])) == 7
        assert len(stub.chats) == 5
        setting.close()
        more = setting.teacher(planner_at(stub), TeacherBudget(max_requests=12), concurrency=8)
        assert None not in more.ask([request(i) for i in range(12)])
        assert len(stub.chats) == 12


def test_the_requests_that_other_commands_ended_count(setting: Setting) -> None:
    with StubServer(reply, key=KEY) as stub:
        first, second = (
            setting.teacher(planner_at(stub), TeacherBudget(max_requests=7), concurrency=4) for _ in range(2)
        )
        assert None not in first.ask([request(i) for i in range(5)])
        got = second.ask([request(i) for i in range(20, 40)])
        assert sum(isinstance(each, PlannerReply) for each in got) == 2
        assert len(stub.chats) == 7


def test_the_cost_cap_is_never_passed(setting: Setting) -> None:
    """100 tokens in at 1 and 10 out at 10 a thousand: 0.2 a request. Before it is sent a request may cost
    69 tokens in and 20 out: 0.269."""
    budget = TeacherBudget(Prices(1000, 10_000), max_cost=1.0)
    with StubServer(reply, key=KEY) as stub:
        teacher = setting.teacher(planner_at(stub), budget, concurrency=8, longest=20)
        got = teacher.ask([request(i) for i in range(12)])
    # After three 0.6 are spent, and 0.869 may be; after four 0.8, and 1.069 would be too much.
    assert sum(isinstance(reply, PlannerReply) for reply in got) == 4
    assert budget.cost == pytest.approx(0.8)


def test_requests_wait_for_budget_in_flight() -> None:
    budget = TeacherBudget(max_requests=2)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with budget.reserved(1, 1):
            entered.set()
            leave.wait(5)

    def hold_too() -> None:
        with budget.reserved(1, 1):
            passed.set()

    passed = threading.Event()
    budget.charge(1, 1)
    first = threading.Thread(target=hold)
    first.start()
    entered.wait(5)
    second = threading.Thread(target=hold_too)
    second.start()
    assert not passed.wait(0.1), "two in flight would pass the cap if both came back"
    # The first one failed and cost nothing.
    leave.set()
    assert passed.wait(5)
    first.join()
    second.join()
    budget.charge(1, 1)
    with pytest.raises(CapReached), budget.reserved(1, 1):
        pass


def test_a_planner_that_fails_affects_one_request(setting: Setting) -> None:
    """With any planner: BackboneError fails the request, any other exception is an internal error."""

    class FailingPlanner(Planner):
        name = "sick"

        def identity(self) -> dict[str, object]:
            return {}

        def write(self, requests: Any) -> list[PlannerReply]:
            if requests[0].seed == 1:
                raise BackboneError("cannot write this")
            if requests[0].seed == 2:
                raise ZeroDivisionError
            return [PlannerReply("x", 1, 1, 1)]

    teacher = setting.teacher(FailingPlanner())
    assert texts(teacher.ask([request(0), request(1)])) == ["x", "Refusal"]
    with pytest.raises(ZeroDivisionError):
        teacher.ask([request(2), request(3)])
    # What came back beside it is kept.
    lines = [json.loads(line) for line in setting.path.read_text().splitlines()]
    assert sorted(line.get("text", line.get("refused")) for line in lines) == ["cannot write this", "x", "x"]
