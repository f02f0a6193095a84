"""Replies constrained to a schema, and servers that do not offer it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.server_cases import LN_05, Make
from tests.support.stub_server import StubFault, StubServer, completion, entry
from videopro.backbones import GenerateRequest
from videopro.errors import BackboneError

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
