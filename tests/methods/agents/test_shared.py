"""What the agents share: structured replies and their repair, budgets, shared time, sessions, and runs."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel

from tests.support import scenes as world
from tests.support.agents import ScriptedModel
from tests.support.scenes import QUESTION, SceneBackbone, context, item
from tests.support.stub_server import StubFault, StubServer, completion, pictures_of
from videopro.backbones import BackboneConfig, Sampling, ServerSettings
from videopro.backbones.server import api_config
from videopro.errors import BackboneError, BudgetExceeded, VideoError
from videopro.methods.agents import (
    AgentMethod,
    AgentRun,
    AgentSettings,
    Budget,
    Equipment,
    ModelLoader,
    Prepared,
    Session,
    ToolCall,
    ToolsRefused,
    Turn,
    UnparsedReply,
    parse_reply,
)
from videopro.methods.agents.models import ApiModel, Tool, public_role, read_role
from videopro.question import Answer, Question
from videopro.video import Video, uniform_times


class Verdict(BaseModel):
    letter: str
    score: int = Field(ge=0, le=100)


class Verdicts(RootModel[dict[str, Verdict]]):
    pass


@pytest.mark.parametrize(
    "text",
    [
        '{"letter": "B", "score": 7}',
        '<think>{"letter": "A", "score": 1}</think> {"letter": "B", "score": 7}',
        'The set {A, B} is open. {"letter": "B", "score": 7} is mine, {"letter": "C", "score": 9} is not.',
        '{"other": 1} {"letter": "B", "score": 7}',
    ],
)
def test_the_first_object_that_fits_is_read(text: str) -> None:
    assert parse_reply(text, Verdict) == Verdict(letter="B", score=7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("B", "there is no JSON object"),
        ('{"letter": "B"}', "score: Field required"),
        ('{"letter": "B", "score": 101}', "score: Input should be less than or equal to 100"),
        ('{"letter": "A", "letter": "B", "score": 7}', "'letter' twice"),
        ('<think>{"letter": "B", "score": 7}', "there is no JSON object"),
    ],
)
def test_a_reply_that_does_not_fit_says_why(text: str, why: str) -> None:
    with pytest.raises(UnparsedReply, match=why):
        parse_reply(text, Verdict)
    many = json.dumps({i: {"letter": "B", "score": 200} for i in range(5)})
    with pytest.raises(UnparsedReply, match=r"0\.score: .*; 1\.score: .*; 2\.score: .*; and 2 more"):
        parse_reply(many, Verdicts)


def test_frames_are_counted_once_and_new_ones_are_spread_evenly() -> None:
    budget = Budget(max_frames=5)
    assert budget.allowed([1.0, 2.0, 3.0]) == [1.0, 2.0, 3.0]
    # Two are left: of four new ones, the second and the fourth are the midpoints of two halves.
    assert budget.allowed([1.0, 10.0, 20.0, 30.0, 40.0]) == [1.0, 20.0, 40.0]
    assert budget.allowed([2.0, 20.0]) == [2.0, 20.0]
    with pytest.raises(BudgetExceeded, match="5 frames"):
        budget.allowed([50.0])
    with budget.last():
        assert budget.allowed([50.0]) == [50.0]


def test_each_limit_ends_the_search() -> None:
    budget = Budget(max_tokens=10, max_steps=2)
    budget.check()
    budget.tokens = 10
    with pytest.raises(BudgetExceeded, match="10 tokens"):
        budget.check()
    budget.tokens, budget.steps = 9, 2
    with pytest.raises(BudgetExceeded, match="2 steps"):
        budget.check()
    with budget.last():
        budget.check()


def test_a_role_names_a_backbone_with_an_adapter_or_an_endpoint() -> None:
    assert read_role("org/model+me/adapter").adapter == "me/adapter"
    served = read_role("server:qwen@http://host/v1+vca")
    assert (served.base_url, served.adapter_model) == ("http://host/v1", "vca")
    assert read_role("api:o3@http://host/v1").model == "o3"
    assert public_role("server:qwen@http://host/v1") == "server:qwen"
    assert public_role("server:qwen@http://host/v1+vca") == "server:qwen+vca"
    assert public_role("api:o3@http://host/v1") == "api:o3"


def test_what_the_loader_asks_of_each_model() -> None:
    configs: list[BackboneConfig] = []

    def load(config: BackboneConfig) -> SceneBackbone:
        configs.append(config)
        return SceneBackbone()

    own = SceneBackbone()
    low = {"reasoning_effort": "low"}
    own.server_settings = ServerSettings(concurrency=40, timeout=20.0, retries=8, api_body=low)
    # With the preset "equal" as many frames as the backbone takes; with a resolution so many pixels.
    loader = ModelLoader(own, frames=6, pixels=921_600, load=load)
    loader["server:m@http://localhost:1/v1"]
    ModelLoader(own, load=load)["org/model"]
    served, local = configs
    assert (served.frames, served.pixels, served.server_settings) == (6, 921_600, own.server_settings)
    assert (local.frames, local.pixels, local.server_settings) == (None, None, ServerSettings())
    # A hosted endpoint keeps its smaller number.
    api: Any = loader["api:o3@http://localhost:1/v1"]
    assert api._client._config.server_settings == ServerSettings(concurrency=8, timeout=20.0, retries=8)
    assert (api.identity()["extra_body"], served.extra_body) == (low, {})


def session(model: ScriptedModel, **settings: Any) -> Session:
    return Session(QUESTION, world.video(), {"llm": model}, AgentSettings(**settings))


def test_a_malformed_reply_is_shown_to_the_model_once() -> None:
    model = ScriptedModel(["I say B", {"letter": "B", "score": 7}])
    own = session(model)
    reply = own.ask("judge", "llm", "Judge this.", schema=Verdict)
    assert reply == Verdict(letter="B", score=7)
    assert "I say B" in model.requests[1].prompt
    assert "there is no JSON object in the reply" in model.requests[1].prompt
    (step,) = own.steps
    assert (step.prompt, step.rejected, step.is_unparsed) == ("Judge this.", ("I say B",), False)
    assert step.parsed == {"letter": "B", "score": 7}
    assert step.cost.calls == 2
    assert step.cost.tokens_in == 200
    assert model.requests[0].schema == Verdict.model_json_schema()


def test_admitted_times_may_be_shown_again_within_the_budget() -> None:
    own = session(ScriptedModel([]), max_frames=4)
    admitted = own.admit(uniform_times(0.0, 60.0, 8), "llm")
    assert len(admitted) == 4
    assert len(own.frames(admitted, "llm")) == 4
    assert own.budget.seen == {round(time, 3) for time in admitted}


def guess(run: AgentRun) -> Answer:
    """Judge three times, then answer."""
    for round in run.session.rounds(3):
        frames = run.session.frames([10.0 * round], "llm")
        run.session.tell("judge", "llm", "What is this?", frames=frames)
    return run.conclude()


def answer(
    model: ScriptedModel, behaves: Callable[[AgentRun], Answer] = guess, asked: Any = None, **settings: Any
) -> Any:
    """The result of a question by an agent that behaves so."""

    class OwnRun(AgentRun):
        def run(self) -> Answer:
            return behaves(self)

        def conclude(self) -> Answer:
            self.session.round = 0
            return Answer(self.session.tell("answer", "llm", "Which?")[:1], raw="B")

    class OwnMethod(AgentMethod):
        name = "guess"
        Settings = AgentSettings

        def equipment(self) -> Equipment:
            return Equipment({"llm": "self"}, seeing="llm")

        def models(self, backbone: Any) -> dict[str, Any]:
            return {"llm": model}

        def start(self, session: Session, prepared: Prepared) -> AgentRun:
            return OwnRun(session)

    return OwnMethod(AgentSettings(**settings)).run(asked or item(), context(SceneBackbone()))


def test_an_exception_that_nobody_foresaw_ends_its_question_as_a_wrong_answer() -> None:
    """The agent's own request may have caused it, so it is not left out."""
    result = answer(ScriptedModel(["grey", ValueError("size (0, 4)"), "B"]))
    assert result.error.type == "UnexpectedError"
    assert result.error.message.startswith("ValueError: size (0, 4) (tests/support/")
    assert (result.ended_by.type, [step.raw for step in result.steps]) == ("ValueError", ["grey"])
    # One that shows in a direct look too is not.
    result = answer(ScriptedModel(["grey", ValueError("size (0, 4)"), ValueError("size (0, 4)")]))
    assert (result.error.type, [step.raw for step in result.steps]) == ("NativeError", ["grey"])
    with pytest.raises(MemoryError):
        answer(ScriptedModel([MemoryError("no room")]))


@pytest.mark.parametrize(("bad_from", "kind"), [(29.0, "CallError"), (0.0, "VideoError")])
def test_a_part_of_the_video_that_cannot_be_read_takes_no_question_out(
    bad_from: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent looks at 0, 10 and 29.5 s, of which the last cannot be read. The direct look is at 7.5 s and
    further on: at 29.0 to 29.9 s only the agent's request fails."""
    decode = Video.frames

    def damaged(self: Video, times: Sequence[float], **size: Any) -> Any:
        if any(bad_from <= time < 29.9 for time in times):
            raise VideoError("damaged at 29 s")
        return decode(self, times, **size)

    def look(run: AgentRun) -> Answer:
        run.session.frames([29.5], "llm")
        return run.conclude()

    monkeypatch.setattr(Video, "frames", damaged)
    result = answer(ScriptedModel(["C"], frames=4), look, max_frames=1)
    assert result.error.type == kind
    assert "damaged at 29 s" in result.error.message
    assert result.final is None


def test_the_fallback_of_an_open_question_is_an_answer_in_words() -> None:
    model = ScriptedModel(["a red wall"])
    asked = item(question=Question.open("What is it?"), answer=None)
    found = answer(model, lambda run: Answer(None, raw=""), asked, fallback="native")
    assert [round.execution.status for round in found.rounds] == ["empty", "ok"]
    assert (found.final.letter, found.final.raw) == (None, "a red wall")
    assert "What is it?" in model.requests[0].prompt


SAMPLING = Sampling(50, 0.5, seed=7)


def called(id: str, start: int) -> dict[str, Any]:
    function = {"name": "look", "arguments": f'{{"start": {start}}}'}
    return {"tool_calls": [{"id": id, "type": "function", "function": function}]}


class Look(BaseModel):
    start: float


TOOL = Tool("look", "Look at a moment.", Look)


def model_at(stub: StubServer, **settings: Any) -> ApiModel:
    return ApiModel(api_config(f"api:served@{stub.url}", "model", **settings))


def test_frames_are_sent_as_pictures_after_their_times() -> None:
    with StubServer(lambda body: completion("a red square", None, prompt_tokens=90)) as stub:
        frames = world.video().frames([5.0, 15.0])
        reply = model_at(stub).reply("What is shown?", frames, SAMPLING)
    (body,) = stub.chats
    assert len(pictures_of(body)) == 2
    texts = [part["text"] for part in body["messages"][0]["content"] if part["type"] == "text"]
    assert texts == ["<5.0 seconds>", "<15.0 seconds>", "What is shown?"]
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (50, 0.5, 7)
    assert (reply.text, reply.tokens_in, reply.is_constrained) == ("a red square", 90, False)


def test_more_frames_than_the_model_takes_are_refused_here() -> None:
    with StubServer() as stub, pytest.raises(BackboneError, match="2 frames in one call; served takes 1"):
        model_at(stub, frames=1).reply("?", world.video().frames([5.0, 15.0]), SAMPLING)
    assert stub.chats == []


def test_fields_that_are_refused_are_left_out_and_noted() -> None:
    def picky(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return StubFault(400, {"error": {"message": "Invalid parameter: response_format"}})
        if "temperature" in body:
            return StubFault(400, {"error": {"message": "Unsupported value: 'temperature'"}})
        return completion("{}", None)

    with StubServer(picky) as stub:
        reply = model_at(stub).reply("?", (), SAMPLING, {"title": "Verdict"})
    assert reply.notes == (
        "response_format omitted, as the server rejects it",
        "temperature omitted, as the server rejects it",
    )
    assert not reply.is_constrained


def test_a_letter_is_read_in_the_reply_and_has_no_confidence() -> None:
    with StubServer(lambda body: completion("It must be (B).", None)) as stub:
        answer = model_at(stub).choose(QUESTION, "Which?", ())
    assert (answer.letter, answer.confidence, answer.raw) == ("B", 0.0, "It must be (B).")


def test_tools_are_sent_and_their_calls_are_read() -> None:
    with StubServer(
        lambda body: completion(None, None, finish="tool_calls", message=called("c1", 3))
    ) as stub:
        turns = (
            Turn("user", "Find it."),
            Turn("assistant", "", (ToolCall("look", '{"start": 1}', "c0"),)),
            Turn("tool", "nothing there", call_id="c0"),
        )
        reply = model_at(stub).converse(turns, [TOOL], SAMPLING)
    (body,) = stub.chats
    assert body["messages"] == [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": "", **called("c0", 1)},
        {"role": "tool", "tool_call_id": "c0", "content": "nothing there"},
    ]
    assert body["tools"][0]["function"]["parameters"]["properties"]["start"]["type"] == "number"
    assert reply.calls == (ToolCall("look", '{"start": 3}', "c1"),)


@pytest.mark.parametrize(
    ("message", "kind"),
    [('"auto" tool choice requires --enable-auto-tool-choice', ToolsRefused), ("too long", BackboneError)],
)
def test_a_server_without_tools_is_told_apart_from_one_that_fails(
    message: str, kind: type[Exception]
) -> None:
    fault = StubFault(400, {"error": {"message": message}})
    with StubServer(lambda body: fault) as stub, pytest.raises(kind, match=message) as refused:
        model_at(stub).converse([Turn("user", "Find it.")], [TOOL], SAMPLING)
    assert isinstance(refused.value, ToolsRefused) == (kind is ToolsRefused)
