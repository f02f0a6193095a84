"""A model behind an endpoint without log-probabilities: what is sent, what is read, what may be refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.support import reason_world as world
from tests.support.reason_world import QUESTION
from tests.support.stub_server import StubFault, StubServer, completion, pictures_of
from videopro.backbones import Sampling
from videopro.backbones.server import api_config
from videopro.errors import BackboneError
from videopro.methods.agents import ToolCall, ToolsRefused, Turn
from videopro.methods.agents.models import ApiModel, Tool

SAMPLING = Sampling(50, 0.5, seed=7)


def called(id: str, start: int) -> dict[str, Any]:
    function = {"name": "look", "arguments": f'{{"start": {start}}}'}
    return {"tool_calls": [{"id": id, "type": "function", "function": function}]}


class Look(BaseModel):
    start: float


TOOL = Tool("look", "Look at a moment.", Look)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


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
        "response_format left out: the server refuses it",
        "temperature left out: the server refuses it",
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
    assert type(refused.value) is not BackboneError or kind is BackboneError
