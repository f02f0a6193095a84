"""An API teacher over real HTTP: every kind of failure, nothing lost, nothing paid twice, caps that hold."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.scenes import ScriptedPlanner
from tests.support.server_cases import without_waiting
from tests.support.stub_server import StubFault, StubServer, completion, text_of
from tests.support.synthesis import KEY, said
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
from videopro.question import Question


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    without_waiting(monkeypatch)


def request(number: int, prompt: str = "Write.") -> PlanRequest:
    return PlanRequest("plan_program", f"{prompt} {number}", Question("Which?", ("a", "b")), seed=number)


def requests(*numbers: int) -> list[PlanRequest]:
    return [request(number) for number in range(*numbers)]


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """Says what it was asked; 100 tokens in, 10 out."""
    return said(f"reply to {text_of(body)}")


def refusing(message: str, status: int = 400) -> StubFault:
    return StubFault(status, {"error": {"message": message}})


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(reply, key=KEY) as server:
        yield server


class Setting:
    """Teachers at the stub, with a log in a folder; opening another is what a resumed command does."""

    def __init__(self, folder: Path, stub: StubServer) -> None:
        self.path = folder / "replies.jsonl"
        self._address = f"api:served@{stub.url}"
        self._opened: list[Teacher] = []

    def teacher(
        self,
        budget: TeacherBudget | None = None,
        planner: Planner | None = None,
        asking: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Teacher:
        """`asking`: settings of the planner."""
        budget = budget or TeacherBudget()
        log = ReplyLog(self.path, budget)
        log.load()
        planner = planner or ApiPlanner(self._address, api_key_env="TEACHER_KEY", **(asking or {}))
        self._opened.append(Teacher(planner, budget, log, **settings))
        return self._opened[-1]

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


@pytest.fixture
def setting(tmp_path: Path, stub: StubServer) -> Iterator[Setting]:
    made = Setting(tmp_path, stub)
    yield made
    made.close()


def texts(got: list[Any]) -> list[str]:
    return [each.text if isinstance(each, PlannerReply) else type(each).__name__ for each in got]


def replies(*numbers: int) -> list[str]:
    return [f"reply to Write. {number}" for number in range(*numbers)]


FAULTS = (
    StubFault(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "0"}),
    refusing("oops", 500),
    StubFault(503, b"<html>busy</html>"),
    StubFault(200, {}, delay=2.0),
    StubFault(200, b"<html>hello</html>"),
    StubFault(200, {"object": "chat.completion", "choices": []}),
    StubFault(200, completion("half of a reply", None), cut=True),
)


def test_transient_failures_are_retried_and_no_reply_is_lost(setting: Setting, stub: StubServer) -> None:
    stub.faults = [fault for fault in FAULTS for _ in range(2)]
    teacher = setting.teacher(asking={"timeout": 1.0}, concurrency=4)
    assert texts(teacher.ask(requests(30))) == replies(30)
    assert len(stub.chats) == 30 + 2 * len(FAULTS)
    assert stub.peak <= 4
    # Tries that failed are not billed.
    assert teacher.budget.spent.requests == 30


def test_a_refused_request_does_not_fail_the_others(setting: Setting, stub: StubServer) -> None:
    """Refused for its length; a reply without text, which is paid for all the same."""

    def picky(body: dict[str, Any]) -> Any:
        if "long" in text_of(body):
            return refusing("the context is too long")
        if "think" in text_of(body):
            made = completion(None, None, finish="length", prompt_tokens=50)
            made["usage"]["completion_tokens"] = 4000
            return made
        return reply(body)

    stub.reply = picky
    teacher = setting.teacher()
    got = teacher.ask([request(0), request(1, "too long"), request(2, "think"), request(3)])
    assert texts(got) == [*replies(1), "Refusal", "Refusal", *replies(3, 4)]
    assert isinstance(got[1], Refusal)
    assert "the context is too long" in got[1].reason
    spent = teacher.budget.spent
    assert (spent.requests, spent.refused, spent.tokens_in, spent.tokens_out) == (4, 2, 250, 4020)
    setting.close()
    assert read_teacher_usage(setting.path) == spent
    # Asked again: the replies are there, the refusals are tried again.
    again = setting.teacher().ask([request(0), request(1, "too long"), request(3)])
    assert texts(again) == [*replies(1), "Refusal", *replies(3, 4)]
    assert len(stub.chats) == 5


def test_repeated_refusals_stop_the_run(setting: Setting, stub: StubServer) -> None:
    stub.reply = lambda body: refusing("bad field 'x'")
    with pytest.raises(RunError, match="bad field 'x'"):
        setting.teacher(concurrency=1).ask(requests(100))
    assert len(stub.chats) == REFUSALS_IN_A_ROW


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_teacher_that_refuses_everything_stops_the_run_and_its_replies_are_kept(
    setting: Setting, stub: StubServer, status: int
) -> None:
    teacher = setting.teacher(concurrency=1)
    assert texts(teacher.ask(requests(2))) == replies(2)
    stub.reply = lambda body: refusing("not today", status)
    with pytest.raises(RunError, match="re-run the same command to resume"):
        teacher.ask(requests(2, 40))
    tried = len(stub.chats)
    assert tried <= 2 + 5, "the others were not tried one by one"
    setting.close()
    stub.reply = reply
    assert texts(setting.teacher().ask(requests(40))) == replies(40)
    assert len(stub.chats) == tried + 38


def test_a_reply_is_asked_for_once(setting: Setting, stub: StubServer) -> None:
    """Another seed, kind or prompt is another request."""
    count = iter(range(100))
    stub.reply = lambda body: completion(f"number {next(count)}", None)
    wanted = [*requests(2), PlanRequest("bug_fix", "Write. 0", request(0).question, seed=0)]
    said = texts(setting.teacher(concurrency=1).ask(wanted))
    assert len(set(said)) == 3
    setting.close()
    # A killed writer's torn line is cut.
    with setting.path.open("ab") as file:
        file.write(b'{"key": "half')
    again = setting.teacher()
    assert texts(again.ask(wanted)) == said
    assert len(stub.chats) == again.budget.spent.requests == 3
    setting.close()
    # Another temperature is another teacher.
    assert texts(setting.teacher(asking={"sampling": Sampling(temperature=0.1)}).ask(wanted)) != said


def test_the_key_is_never_shown(
    setting: Setting, stub: StubServer, capfd: pytest.CaptureFixture[str]
) -> None:
    stub.reply = lambda body: refusing(f"too long, said {KEY}") if "long" in text_of(body) else reply(body)
    stub.faults = [refusing(KEY, 500)]
    setting.teacher().ask([request(0), request(1, "long")])
    captured, stored = capfd.readouterr(), setting.path.read_text()
    assert KEY not in stored + captured.out + captured.err
    assert "[key]" in stored


def test_two_commands_find_each_others_replies(setting: Setting, stub: StubServer) -> None:
    first, second = setting.teacher(), setting.teacher()
    first.ask(requests(3))
    assert texts(second.ask(requests(5))) == replies(5)
    first.ask(requests(4, 5))
    assert len(stub.chats) == first.budget.spent.requests == second.budget.spent.requests == 5


def test_a_broken_line_is_told_and_its_reply_asked_for_again(
    setting: Setting, stub: StubServer, capfd: pytest.CaptureFixture[str]
) -> None:
    setting.teacher().ask(requests(2))
    first, _ = setting.path.read_text().splitlines(keepends=True)
    setting.path.write_text(first + '{"key": "a"}\n' + "9" * 400 + "\n")
    assert texts(setting.teacher().ask(requests(2))) == replies(2)
    assert len(stub.chats) == 3
    said = capfd.readouterr().err
    assert f"{setting.path}: 2 lines cannot be read and were set aside: line 2 (no reply: 'tokens_in'" in said
    assert "line 3 (no reply: 999" in said
    assert read_teacher_usage(setting.path).requests == 2
    assert setting.path.read_text().startswith(first + '{"key": "a"}\n')


def test_the_request_cap_holds_over_all_commands(setting: Setting, stub: StubServer) -> None:
    for most, open_ in ((5, 7), (5, 7), (12, 0)):
        teacher = setting.teacher(TeacherBudget(max_requests=most), concurrency=8)
        assert sum(reply is None for reply in teacher.ask(requests(12))) == open_
        assert len(stub.chats) == most
        setting.close()


def test_the_cost_cap_is_never_passed(setting: Setting) -> None:
    """100 tokens in at 1 and 10 out at 10 a thousand: 0.2 a request. Before it is sent a request may cost
    69 tokens in and 20 out: 0.269."""
    budget = TeacherBudget(Prices(1000, 10_000), max_cost=1.0)
    got = setting.teacher(budget, concurrency=8, longest=20).ask(requests(12))
    # After three 0.6 are spent, and 0.869 may be; after four 0.8, and 1.069 would be too much.
    assert sum(isinstance(reply, PlannerReply) for reply in got) == 4
    assert budget.cost == pytest.approx(0.8)


def test_requests_wait_for_budget_in_flight() -> None:
    budget = TeacherBudget(max_requests=2)
    budget.charge(1, 1)
    passed = threading.Event()

    def hold_too() -> None:
        with budget.reserved(1, 1):
            passed.set()

    second = threading.Thread(target=hold_too)
    with budget.reserved(1, 1):
        second.start()
        assert not passed.wait(0.1), "two in flight would pass the cap if both came back"
    # The first one failed and cost nothing.
    assert passed.wait(5)
    second.join()
    budget.charge(1, 1)
    with pytest.raises(CapReached), budget.reserved(1, 1):
        pass


def test_a_planner_that_fails_affects_one_request(setting: Setting) -> None:
    """With any planner: BackboneError fails the request, any other exception is an internal error."""
    faults = {1: BackboneError("cannot write this"), 2: ZeroDivisionError()}

    def write(request: PlanRequest) -> str:
        if request.seed in faults:
            raise faults[request.seed]
        return "x"

    teacher = setting.teacher(planner=ScriptedPlanner(write))
    assert texts(teacher.ask(requests(2))) == ["x", "Refusal"]
    with pytest.raises(ZeroDivisionError):
        teacher.ask(requests(2, 4))
    # What came back beside it is kept.
    lines = [json.loads(line) for line in setting.path.read_text().splitlines()]
    assert sorted(line.get("text", line.get("refused")) for line in lines) == ["cannot write this", "x", "x"]
