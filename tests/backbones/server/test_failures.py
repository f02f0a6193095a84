"""Every way in which a server can fail, and the error that the user sees."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, KEY, KEY_ENV, LN_05, Make
from tests.support.stub_server import BadRequest, StubFault, StubServer, completion, entry, letter, text_of
from videopro.backbones import ChoiceRequest
from videopro.backbones.server import endpoint
from videopro.errors import BackboneError


def replaced(field: str, value: Any) -> dict[str, Any]:
    """A valid reply except for one of its fields."""
    return {**letter("A", [("A", -1.0)]), field: value}


def logprobs(value: Any) -> dict[str, Any]:
    """A valid reply except for its log-probabilities."""
    return letter("A", [("A", -1.0)], choice={"logprobs": value})


def test_retry_after_is_honoured(stub: StubServer, make: Make) -> None:
    stub.faults = [StubFault(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"})]
    start = time.monotonic()
    assert make(stub).answer(None, COLOURS).letter == "A"
    assert 1 <= time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (StubFault(429, {"error": {"message": "slow down"}}), "slow down"),
        (StubFault(500, {"error": {"message": "boom"}}), "status 500.*boom"),
        (StubFault(502, b"<html>Bad Gateway</html>"), "status 502"),
        (StubFault(503, {"error": {"message": "loading"}}), "loading"),
        (StubFault(408, {"error": {"message": "late"}}), "late"),
        (StubFault(200, letter("A", [("A", -1.0)]), cut=True), "cannot be reached"),
    ],
)
def test_transient_failures_are_retried_and_then_reported(
    fault: StubFault, words: str, stub: StubServer, make: Make
) -> None:
    backbone = make(stub, retries=3)
    stub.faults = [fault, fault]
    assert backbone.answer(None, COLOURS).letter == "A"
    stub.faults = [fault] * 4
    with pytest.raises(BackboneError, match=words) as caught:
        backbone.answer(None, COLOURS)
    assert stub.url in str(caught.value)
    assert len(stub.chats) == 3 + 4


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (StubFault(200, b'{"choices": [{"mess'), "not JSON"),
        (StubFault(200, b"<html>hello</html>"), "not JSON"),
        (StubFault(200, b"\xff\xfe"), "not JSON"),
        (StubFault(200, b"[]"), "not an object"),
        (StubFault(200, {"choices": []}), "choices: "),
        (StubFault(200, {"object": "chat.completion"}), "choices: "),
        (StubFault(200, {"choices": [{"index": 0}]}), "choices.0.message"),
        (StubFault(200, {"choices": [None]}), "choices.0"),
        (StubFault(200, {"choices": "A"}), "choices: "),
        (StubFault(200, {"choices": {"0": 1}}), "choices: "),
        (StubFault(200, {"choices": [{"message": "A"}]}), "choices.0.message"),
        (StubFault(200, {"choices": [{"message": {"content": 5}}]}), "choices.0.message.content"),
        (StubFault(200, {"error": {"message": "out of memory"}}), "an error: out of memory"),
        (StubFault(200, {"error": [1]}), "an error"),
        (StubFault(200, b'data: {"choices": []}\n\ndata: [DONE]\n\n'), "stream of events"),
        (StubFault(200, b"[" * 100_000), "nested"),
        (StubFault(200, b'{"choices": ' + b"9" * 5000 + b"}"), "too large a number"),
        (StubFault(200, b"5"), r"not an object \(int\)"),
        (StubFault(200, replaced("usage", "many")), "usage"),
        (
            StubFault(200, replaced("usage", {"prompt_tokens": "x", "completion_tokens": 1})),
            "usage.prompt_tokens",
        ),
        (
            StubFault(200, replaced("usage", {"prompt_tokens": 1, "completion_tokens": -1})),
            "usage.completion",
        ),
        (
            StubFault(200, replaced("usage", {"prompt_tokens": 10**300, "completion_tokens": 1})),
            "usage.prompt",
        ),
        (StubFault(200, logprobs("A")), "choices.0.logprobs"),
        (StubFault(200, logprobs({"content": "A"})), "choices.0.logprobs.content"),
        (StubFault(200, logprobs({"content": [None]})), "choices.0.logprobs.content.0"),
        (StubFault(200, logprobs({"content": [{"token": 5, "logprob": -1.0}]})), "content.0.token"),
        (StubFault(200, logprobs({"content": [{"token": "A", "logprob": "-1"}]})), "content.0.logprob"),
        (StubFault(200, logprobs({"content": [{"token": "A"}]})), "content.0.logprob"),
        (
            StubFault(200, logprobs({"content": [{"token": "A", "logprob": -1, "top_logprobs": [[]]}]})),
            "content.0.top_logprobs.0",
        ),
    ],
)
def test_a_reply_that_is_none_is_asked_for_again(
    fault: StubFault, words: str, stub: StubServer, make: Make
) -> None:
    stub.faults = [fault]
    assert make(stub, retries=1).answer(None, COLOURS).letter == "A"
    stub.faults = [fault] * 2
    with pytest.raises(BackboneError, match=f"not a chat completion.*{words}"):
        make(stub, retries=1).answer(None, COLOURS)


def test_a_reply_that_drips_ends(stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_LONGEST_PAUSE", 0.1)
    # For 20 s, a byte in time each.
    stub.faults = [StubFault(body=b" " * 200, drip=0.1)]
    start = time.monotonic()
    with pytest.raises(BackboneError, match=r"no reply within 0.5 s"):
        make(stub, timeout=0.5, retries=0).answer(None, COLOURS)
    assert time.monotonic() - start < 5


def test_a_server_that_is_too_slow_times_out(stub: StubServer, make: Make) -> None:
    fault = StubFault(body=b"{}", delay=30.0)
    backbone = make(stub, timeout=0.5, retries=1)
    stub.faults = [fault, fault]
    start = time.monotonic()
    with pytest.raises(BackboneError, match=r"no reply within 0.5 s.*timeout"):
        backbone.answer(None, COLOURS)
    assert time.monotonic() - start < 10
    # One try too slow, the next in time.
    stub.faults = [fault]
    assert make(stub, timeout=1.0).answer(None, COLOURS).letter == "A"


def test_a_server_that_is_slow_but_in_time_is_waited_for(stub: StubServer, make: Make) -> None:
    stub.faults = [StubFault(body=letter("B", [("B", LN_05)]), delay=0.4)]
    assert make(stub, timeout=5).answer(None, COLOURS).letter == "B"


def test_an_unreachable_server_is_named_with_the_fix(make: Make) -> None:
    with StubServer() as stub:
        url = stub.url
    with pytest.raises(BackboneError) as caught:
        make(url, retries=2).answer(None, COLOURS)
    assert url in str(caught.value)
    assert "vllm serve served" in str(caught.value)
    assert "fix its address" in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            StubFault(400, {"error": {"message": "This model's maximum context length is 9 tokens"}}),
            "maximum context",
        ),
        (StubFault(422, {"detail": [{"msg": "bad field"}]}), "bad field"),
        (StubFault(413, b"too large"), "too large"),
        (StubFault(400, {"error": {"message": "top_logprobs must be below 5"}}), "--max-logprobs"),
    ],
)
def test_permanent_failures_are_reported_at_once(
    fault: StubFault, words: str, stub: StubServer, make: Make
) -> None:
    stub.faults = [fault]
    with pytest.raises(BackboneError, match=words):
        make(stub).answer(None, COLOURS)
    assert len(stub.chats) == 1


def test_a_key_not_configured_for_a_server_is_never_sent_to_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubServer(key=KEY) as stub:
        with pytest.raises(BackboneError, match=r"requires a key; set .*api_key_env"):
            make(stub, api_key_env=None).answer(None, COLOURS)
        assert make(stub, api_key_env="OPENAI_API_KEY").answer(None, COLOURS).letter == "A"


@pytest.mark.parametrize("models", [None, [{"id": "served"}]])
def test_the_key_is_sent_and_never_shown(
    models: Any, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with StubServer(models=models, key="another") as stub:
        backbone = make(stub)
        with pytest.raises(BackboneError, match=f"requires a key.*{KEY_ENV}"):
            backbone.answer(None, COLOURS)
        monkeypatch.setenv(KEY_ENV, KEY)
        backbone = make(stub)
        with pytest.raises(BackboneError, match=f"refused the key.*{KEY_ENV}") as caught:
            backbone.answer(None, COLOURS)
        stub.key = KEY
        assert backbone.answer(None, COLOURS).letter == "A"
        # A server that repeats the key in another error.
        stub.faults = [
            StubFault(400, {"error": {"message": f"bad request with {KEY}"}}),
            StubFault(500, KEY.encode()),
        ]
        texts = ["".join(traceback.format_exception(caught.value))]
        for _ in range(2):
            try:
                backbone.answer(None, COLOURS)
            except BackboneError as error:
                texts += traceback.format_exception(error)
        texts += [json.dumps(backbone.identity()), repr(backbone), repr(vars(backbone)), caplog.text]
        assert len(texts) > 5
        assert not any(KEY in text for text in texts)
        assert stub.seen[-1].headers["authorization"] == f"Bearer {KEY}"


def test_an_unknown_model_is_answered_with_the_known_ones(make: Make) -> None:
    with StubServer(models=[{"id": "one"}, {"id": "two"}]) as stub:
        with pytest.raises(BackboneError, match="no model 'served'; it offers: one, two"):
            make(stub).answer(None, COLOURS)
        assert not stub.chats


def test_a_model_that_disappears_during_a_run_is_reported(stub: StubServer, make: Make) -> None:
    backbone = make(stub)
    backbone.answer(None, COLOURS)
    stub.models = [{"id": "other"}]
    with pytest.raises(BackboneError, match="no model 'served'; it offers: other"):
        backbone.answer(None, COLOURS)


def test_a_wrong_address_is_distinguished_from_a_wrong_model(stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match=r"404.*is the address right.*/v1"):
        make(stub.url.removesuffix("/v1") + "/v2").answer(None, COLOURS)


def test_a_server_without_a_list_of_models_will_do(make: Make) -> None:
    with StubServer(models=None) as stub:
        assert make(stub).answer(None, COLOURS).letter == "A"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("A", None), "no log-probabilities.*--max-logprobs"),
        (completion("A", []), "no log-probabilities.*--max-logprobs"),
        (completion("A", [entry("token_id:32", -0.1)]), "--return-tokens-as-token-ids"),
        (completion("A", [entry("A", float("nan"))]), "not 0 or less"),
        (completion("A", [entry("A", 1e300)]), "not 0 or less"),
        (completion("A", [entry("A", -0.1, [("A", -0.1), ("B", float("inf"))])]), "not 0 or less"),
        (completion("A", [entry("A", -0.1)], finish="content_filter"), "content_filter"),
        ({**completion("A", [entry("A", -0.1)]), "usage": None}, "usage"),
    ],
)
def test_replies_without_what_is_needed(reply: dict[str, Any], words: str, make: Make) -> None:
    with StubServer(lambda body: reply) as stub, pytest.raises(BackboneError, match=words):
        make(stub).generate(None, "What?")


def test_one_failure_ends_a_batch_and_the_rest_is_not_sent(make: Make) -> None:
    def reply(body: dict[str, Any]) -> Any:
        if "bad" in text_of(body):
            raise BadRequest("no")
        time.sleep(0.5)
        return letter("A", [("A", -1.0)])

    requests = [ChoiceRequest(None, COLOURS, "bad")] + [ChoiceRequest(None, COLOURS, "good")] * 20
    with StubServer(reply) as stub:
        backbone = make(stub, concurrency=2)
        with pytest.raises(BackboneError, match="no"):
            backbone.answer_batch(requests)
        assert len(stub.chats) < 10
        assert backbone.answer(None, COLOURS).letter == "A"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"data": "many"}', b'{"data": [1]}', b'{"data"'])
def test_a_broken_list_of_models_is_reported(body: bytes, make: Make) -> None:
    class Broken(StubServer):
        def answer(self, seen: Any) -> StubFault:
            return StubFault(200, body, {"Content-Type": "application/json"})

    with Broken() as stub, pytest.raises(BackboneError, match="not a chat completion") as caught:
        make(stub, retries=2).identity()
    assert stub.url in str(caught.value)


def test_lone_surrogates_in_a_servers_text_can_be_written(stub: StubServer, make: Make) -> None:
    stub.faults = [StubFault(400, b'{"error": {"message": "\\ud83d no"}}')]
    with pytest.raises(BackboneError) as caught:
        make(stub).answer(None, COLOURS)
    assert "\ufffd no" in str(caught.value)
    str(caught.value).encode()
    stub.faults = [StubFault(200, completion("a\ud83d", [entry("a", -0.5)]))]
    assert make(stub).generate(None, "What?").text == "a\ufffd"
