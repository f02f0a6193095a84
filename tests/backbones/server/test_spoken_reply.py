"""One reading of replies for all who ask a server: parts, thoughts, and what ended a reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, LN_02, LN_05, Make
from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import Sampling
from videopro.backbones.server import api_config
from videopro.errors import BackboneError
from videopro.methods.agents.models import ApiModel
from videopro.methods.planners import EmptyReply, PlanRequest
from videopro.methods.planners.server import ApiPlanner
from videopro.question import Question

Ask = Callable[[StubServer, int], tuple[str, bool]]
"""What a reply of at most so many tokens says, and whether it was cut off."""


@pytest.fixture(params=["backbone", "planner", "agent"])
def ask(request: pytest.FixtureRequest, make: Make) -> Iterator[Ask]:
    closing: list[Any] = []

    def backbone(stub: StubServer, limit: int) -> tuple[str, bool]:
        reply = make(stub).generate(None, "What?", Sampling(limit))
        return reply.text, reply.finish == "length"

    def planner(stub: StubServer, limit: int) -> tuple[str, bool]:
        closing.append(ApiPlanner(f"api:served@{stub.url}", sampling=Sampling(limit), retries=0))
        question = PlanRequest("plan", "What?", Question.open("What?"))
        try:
            (reply,) = closing[-1].write([question])
        except EmptyReply as error:
            return "", "limit" in str(error)
        return reply.text, reply.notes.get("cut off") == f"after {limit} tokens"

    def agent(stub: StubServer, limit: int) -> tuple[str, bool]:
        model = ApiModel(api_config(f"api:served@{stub.url}", "model", retries=0))
        reply = model.reply("What?", [], Sampling(limit))
        return reply.text, reply.cut_at == limit

    yield {"backbone": backbone, "planner": planner, "agent": agent}[request.param]
    for made in closing:
        made.close()


def said(content: Any, *, finish: Any = "stop", tokens: int = 2, **message: Any) -> dict[str, Any]:
    listed = [entry(token, LN_05) for token in ("It is", " B", "x")[:tokens]]
    reply = completion(content, listed, message=message)
    reply["choices"][0]["finish_reason"] = finish
    return reply


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (said([{"type": "text", "text": "It is "}, {"type": "text", "text": "B"}]), "It is B"),
        (said([{"type": "output_text", "text": "It is B"}]), "It is B"),
        (said({"type": "text", "text": "It is B"}), "It is B"),
        (said([{"type": "Text", "text": "It is B"}]), "It is B"),
        (said(["It is ", "B"]), "It is B"),
        (said([{"type": "text", "text": {"value": "It is B"}}]), "It is B"),
        (
            said([{"type": "image_url", "image_url": {}}, {"type": "text", "text": "It is B"}]),
            "It is B",
        ),
        (
            said(
                [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "A?"}]},
                    {"type": "text", "text": "It is B"},
                ]
            ),
            "It is B",
        ),
        (said([{"type": "reasoning", "text": "A?"}, {"type": "text", "text": "It is B"}]), "It is B"),
        (said("<think>A?</think>It is B"), "It is B"),
        (said("A?</think>\n\nIt is B"), "It is B"),
        (said(None, refusal="It is B"), "It is B"),
        (
            {**said("It is B"), "choices": [*said("It is B")["choices"], *said("C")["choices"]]},
            "It is B",
        ),
    ],
)
def test_what_is_said_is_read_in_every_form(reply: dict[str, Any], text: str, ask: Ask) -> None:
    with StubServer(lambda body: reply) as stub:
        assert ask(stub, 50) == (text, False)


@pytest.mark.parametrize(
    "reply",
    [
        said("<think>It may be A", finish="length"),
        said([{"type": "thinking", "thinking": "It may be A"}], finish="length"),
        said(None, finish="length", reasoning_content="It may be A"),
        said("", finish="length", reasoning="It may be A"),
        said("", finish="length", reasoning_details=[{"type": "reasoning.text", "text": "It may be A"}]),
        said([], finish="length"),
    ],
)
def test_unfinished_thoughts_are_no_reply(reply: dict[str, Any], ask: Ask) -> None:
    with StubServer(lambda body: reply) as stub:
        assert ask(stub, 50) == ("", True)


@pytest.mark.parametrize(
    ("word", "is_cut"),
    [
        *((word, False) for word in ("stop", "eos", "eos_token", "EOS_TOKEN", "end", "end_turn", "STOP")),
        *(
            (word, False)
            for word in ("stop_sequence", "tool_calls", "FINISH_REASON_STOP", None, "", "other", 1)
        ),
        ({"type": "stop", "matched": 151645}, False),
        *((word, True) for word in ("length", "max_tokens", "MAX_TOKENS", "FinishReason.MAX_TOKENS")),
        ({"type": "length", "length": 50}, True),
    ],
)
def test_the_words_of_servers_for_the_end_of_a_reply(word: Any, is_cut: bool, ask: Ask) -> None:
    with StubServer(lambda body: said("It is B", finish=word)) as stub:
        assert ask(stub, 50) == ("It is B", is_cut)


@pytest.mark.parametrize("word", [None, "other"])
def test_without_a_known_word_the_number_of_tokens_tells(word: Any, ask: Ask) -> None:
    with StubServer(lambda body: said("It is B", finish=word, tokens=3)) as stub:
        assert ask(stub, 3) == ("It is B", True)
        assert ask(stub, 4) == ("It is B", False)


@pytest.mark.parametrize("word", ["content_filter", "SAFETY", "error", "abort"])
def test_a_reply_that_the_server_broke_off_is_an_error(word: str, ask: Ask) -> None:
    with (
        StubServer(lambda body: said("It is", finish=word)) as stub,
        pytest.raises(BackboneError, match=word),
    ):
        ask(stub, 50)


@pytest.mark.parametrize("cut", [[], [entry("It", LN_05)]])
def test_a_reply_that_a_stopped_vllm_breaks_off_is_asked_for_again(cut: list[Any], make: Make) -> None:
    """It gives the tokens that there are, with status 200: none of a letter, and of others the first ones."""
    broken = completion("It" if cut else "", cut, finish="abort")
    whole = completion("A", [entry("A", LN_05, [("A", LN_05)])])
    with StubServer(lambda body: whole) as stub:
        made = make(stub)
        stub.faults = [lambda body: broken]
        assert made.answer(None, COLOURS).letter == "A"
        stub.faults = [lambda body: broken]
        assert made.generate(None, "What?").text == "A"
        assert len(stub.chats) == 4


def test_the_confidence_is_that_of_what_is_said(make: Make) -> None:
    """Thoughts within the text count no more than those that a server sets apart; all of them cost tokens."""
    tokens = [("<think>", -1.0), ("A?", -2.0), ("</think>", -0.1), ("\n\n", -0.1), ("B", LN_05), (".", LN_02)]
    listed = [entry(*token) for token in tokens]
    inline = completion("<think>A?</think>\n\nB.", listed, choice={"token_ids": [1, 2, 3, 4, 5, 6]})
    apart = completion("B.", listed, message={"reasoning_content": "A?"})
    only = completion("B.", listed[4:], message={"reasoning_content": "A?"})
    for reply, counted in ((inline, 6), (apart, 6), (only, 2)):
        with StubServer(lambda body, reply=reply: reply) as stub:  # type: ignore[misc]
            found = make(stub).generate(None, "What?")
        assert (found.text, found.tokens, found.logprobs) == ("B.", ("B", "."), (LN_05, LN_02))
        assert found.tokens_out == counted
        assert "A?" in found.thoughts
    with StubServer(lambda body: inline) as stub:
        assert make(stub).generate(None, "What?").token_ids == (5, 6)
