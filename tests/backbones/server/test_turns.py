"""System turns, replies begun for the model or constrained to a schema, texts between frames, and a written
letter's confidence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.server_cases import COLOURS, LN_05, Make, frames
from tests.support.stub_server import StubFault, StubServer, completion, entry
from videopro.backbones import ChoiceRequest, GenerateRequest, Interleaved
from videopro.errors import BackboneError

VLLM = [{"id": "served", "owned_by": "vllm"}]
TURNS: dict[str, Any] = {"system": "Watch it.", "prefill": "Best Option: ("}


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.mark.parametrize("shared", [False, True])
def test_turns_and_a_begun_reply_are_sent(make: Make, shared: bool) -> None:
    with StubServer(models=VLLM) as stub:
        backbone = make(stub, video="frames")
        shown = frames([0.0, 1.0])
        visual: Any = backbone.prefix(shown, system="Watch it.") if shared else shown
        backbone.generate_batch([GenerateRequest(visual, "Which?", **TURNS)])
        backbone.answer_batch([ChoiceRequest(visual, COLOURS, "Which?", **TURNS)])
        begun = len(stub.chats)
        for body in stub.chats:
            assert roles(body) == ["system", "user", "assistant"]
            assert body["messages"][0]["content"] == "Watch it."
            assert body["messages"][2]["content"] == "Best Option: ("
            # As vLLM and SGLang want it; the reply holds only what they add.
            assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
        backbone.generate(shown, "Which?")
        (plain,) = stub.chats[begun:]
        assert roles(plain) == ["user"]
        assert "continue_final_message" not in plain
        if shared:
            with pytest.raises(BackboneError, match="make the prefix with the request's"):
                backbone.generate(visual, "Which?")


def test_a_server_that_would_begin_another_reply_is_refused(stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match="does not say that it is vllm or sglang"):
        make(stub).generate_batch([GenerateRequest(None, "Which?", **TURNS)])
    assert not stub.chats


def test_texts_stand_before_their_frames(stub: StubServer, make: Make) -> None:
    shown = Interleaved(frames([0.0, 1.0]), ["", "He waves.\n"])
    make(stub, video="frames").answer(shown, COLOURS, prompt="Which?")
    make(stub, video="video").answer(shown, COLOURS, prompt="Which?")
    make(stub).answer(Interleaved(frames([0.0]), ["He waves.\n"]), COLOURS, prompt="Which?")
    *several, one = [body["messages"][0]["content"] for body in stub.chats]
    for parts in several:
        assert [part.get("text", part["type"]) for part in parts] == [
            "<0.0 seconds>",
            "image_url",
            "He waves.\n<1.0 seconds>",
            "image_url",
            "Which?",
        ]
    assert [part.get("text", part["type"]) for part in one] == ["He waves.\n", "image_url", "Which?"]


SCHEMA = {"title": "My verdict!", "type": "object", "properties": {"letter": {"type": "string"}}}


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    return completion('{"letter": "B"}', [entry('{"letter": "B"}', LN_05)])


def test_a_schema_is_sent_as_the_response_format(make: Make) -> None:
    with StubServer(verdict) as stub:
        free, bound = make(stub).generate_batch(
            [GenerateRequest(None, "judge"), GenerateRequest(None, "judge", schema=SCHEMA)]
        )
        sent = [body.get("response_format") for body in stub.chats]
    assert (free.is_constrained, bound.is_constrained) == (False, True)
    assert sorted(sent, key=bool) == [
        None,
        {"type": "json_schema", "json_schema": {"name": "My_verdict_", "schema": SCHEMA}},
    ]


def test_a_server_without_schemas_generates_freely_from_then_on(make: Make) -> None:
    def plain(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return StubFault(400, {"error": {"message": "response_format of type json_schema: unknown"}})
        return verdict(body)

    with StubServer(plain) as stub:
        backbone = make(stub)
        replies = [
            backbone.generate_batch([GenerateRequest(None, "judge", schema=SCHEMA)])[0] for _ in range(2)
        ]
        asked = ["response_format" in body for body in stub.chats]
    assert [reply.is_constrained for reply in replies] == [False, False]
    assert [reply.text for reply in replies] == ['{"letter": "B"}'] * 2
    assert asked == [True, False, False], "what was refused once is not sent again"


def test_another_refusal_is_raised(make: Make) -> None:
    fault = StubFault(400, {"error": {"message": "the prompt is too long"}})
    with StubServer(lambda body: fault) as stub, pytest.raises(BackboneError, match="too long"):
        make(stub).generate_batch([GenerateRequest(None, "judge", schema=SCHEMA)])
