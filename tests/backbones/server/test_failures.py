"""Every way in which a server can fail, and the error that the user sees."""

import copy
import json
import logging
import time
import traceback
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, KEY, KEY_ENV, Make
from tests.support.stub_server import BadRequest, StubFault, StubServer, completion, entry, letter, text_of
from videopro.backbones import ChoiceRequest
from videopro.backbones.server import endpoint
from videopro.backbones.server.replies import InvalidReply, read_completion, read_models
from videopro.errors import BackboneError

GOOD = letter("A", [("A", -1.0)])


def refusal(status: int, message: str, **more: Any) -> StubFault:
    return StubFault(status, {"error": {"message": message}}, **more)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        *((refusal(status, "not now"), "not now") for status in (408, 429, 500, 503)),
        (StubFault(502, b"<html>Bad Gateway</html>"), "status 502"),
        (StubFault(200, GOOD, cut=True), "cannot be reached"),
        (StubFault(200, b"<html>hello</html>"), "not a chat completion"),
        (StubFault(200, {"choices": []}), "not a chat completion"),
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
    ("path", "value"),
    [
        *(("choices", value) for value in ("A", [], {"0": 1})),
        ("choices.0", None),
        ("choices.0.message", "A"),
        ("choices.0.message.content", 5),
        ("usage", "many"),
        *(("usage.prompt_tokens", value) for value in ("x", 10**300)),
        ("usage.completion_tokens", -1),
        ("choices.0.logprobs", "A"),
        ("choices.0.logprobs.content", "A"),
        ("choices.0.logprobs.content.0", None),
        ("choices.0.logprobs.content.0.token", 5),
        *(("choices.0.logprobs.content.0.logprob", value) for value in ("-1", None)),
        ("choices.0.logprobs.content.0.top_logprobs.0", []),
    ],
)
def test_a_reply_with_a_broken_part_is_none_and_the_part_is_named(path: str, value: Any) -> None:
    reply = copy.deepcopy(GOOD)
    *parts, last = (int(part) if part.isdigit() else part for part in path.split("."))
    holder: Any = reply
    for part in parts:
        holder = holder[part]
    holder[last] = value
    with pytest.raises(InvalidReply, match=path):
        read_completion(json.dumps(reply).encode())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"choices": [{"mess', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not an object"),
        (b'{"error": {"message": "out of memory"}}', "out of memory"),
        (b'data: {"choices": []}\n\ndata: [DONE]\n\n', "stream of events"),
        (b"[" * 100_000, "nested"),
        (b'{"choices": ' + b"9" * 5000 + b"}", "too large a number"),
    ],
)
def test_a_body_that_is_no_completion(body: bytes, words: str) -> None:
    with pytest.raises(InvalidReply, match=words):
        read_completion(body)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"data": "many"}', b'{"data": [1]}', b'{"data"'])
def test_a_broken_list_of_models(body: bytes, stub: StubServer, make: Make) -> None:
    with pytest.raises(InvalidReply):
        read_models(body)
    stub.pages = {"/v1/models": StubFault(200, body)}
    with pytest.raises(BackboneError, match=f"{stub.url}.*not a chat completion"):
        make(stub, retries=2).identity()


def test_a_reply_that_drips_ends(stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_LONGEST_PAUSE", 0.1)
    # For 20 s, a byte in time each.
    stub.faults = [StubFault(body=b" " * 200, drip=0.1)]
    start = time.monotonic()
    with pytest.raises(BackboneError, match=r"did not reply within 0.5 s"):
        make(stub, timeout=0.5, retries=0).answer(None, COLOURS)
    assert time.monotonic() - start < 5


def test_a_server_that_is_too_slow_times_out(stub: StubServer, make: Make) -> None:
    fault = StubFault(body=b"{}", delay=30.0)
    stub.faults = [fault, fault]
    start = time.monotonic()
    with pytest.raises(BackboneError, match=r"did not reply within 0.5 s.*timeout"):
        make(stub, timeout=0.5, retries=1).answer(None, COLOURS)
    assert time.monotonic() - start < 10
    # One try too slow, the next in time.
    stub.faults = [fault]
    assert make(stub, timeout=1.0).answer(None, COLOURS).letter == "A"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (refusal(400, "This model's maximum context length is 9 tokens"), "maximum context"),
        (StubFault(422, {"detail": [{"msg": "bad field"}]}), "bad field"),
        (StubFault(413, b"too large"), "too large"),
        (refusal(400, "top_logprobs must be below 5"), "--max-logprobs"),
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
        errors = []
        with pytest.raises(BackboneError, match=f"refused the key.*{KEY_ENV}") as caught:
            backbone.answer(None, COLOURS)
        errors.append(caught.value)
        stub.key = KEY
        assert backbone.answer(None, COLOURS).letter == "A"
        # A server that repeats the key in another error.
        for fault in (refusal(400, f"bad request with {KEY}"), StubFault(500, KEY.encode())):
            stub.faults = [fault] * 9
            with pytest.raises(BackboneError) as caught:
                backbone.answer(None, COLOURS)
            errors.append(caught.value)
        texts = ["".join(traceback.format_exception(error)) for error in errors]
        texts += [json.dumps(backbone.identity()), repr(backbone), repr(vars(backbone)), caplog.text]
        assert not any(KEY in text for text in texts)
        assert {seen.headers["authorization"] for seen in stub.seen[2:]} == {f"Bearer {KEY}"}


def test_a_model_that_is_not_served_is_answered_with_those_that_are(stub: StubServer, make: Make) -> None:
    backbone = make(stub)
    stub.models = [{"id": "one"}, {"id": "two"}]
    with pytest.raises(BackboneError, match="no model 'served'; it offers: one, two"):
        backbone.answer(None, COLOURS)
    assert not stub.chats
    # It disappears during a run.
    stub.models = [{"id": "served"}]
    backbone.answer(None, COLOURS)
    stub.models = [{"id": "other"}]
    with pytest.raises(BackboneError, match="no model 'served'; it offers: other"):
        backbone.answer(None, COLOURS)
    # A list is not needed.
    stub.models = None
    assert make(stub).answer(None, COLOURS).letter == "A"


def test_a_wrong_address_and_a_server_that_is_down_are_named_with_the_fix(make: Make) -> None:
    with StubServer() as stub, pytest.raises(BackboneError, match=r"404.*check its address.*/v1"):
        make(stub.url.removesuffix("/v1") + "/v2").answer(None, COLOURS)
    with pytest.raises(BackboneError, match=f"{stub.url}.*vllm serve served"):
        make(stub, retries=2).answer(None, COLOURS)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        *((completion("A", entries), "no log-probabilities.*--max-logprobs") for entries in (None, [])),
        (completion("A", [entry("token_id:32", -0.1)]), "--return-tokens-as-token-ids"),
        *((completion("A", [entry("A", value)]), "not 0 or less") for value in (float("nan"), 1e300)),
        (completion("A", [entry("A", -0.1, [("A", -0.1), ("B", float("inf"))])]), "not 0 or less"),
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
        return GOOD

    requests = [ChoiceRequest(None, COLOURS, "bad")] + [ChoiceRequest(None, COLOURS, "good")] * 20
    with StubServer(reply) as stub:
        backbone = make(stub, concurrency=2)
        with pytest.raises(BackboneError, match="no"):
            backbone.answer_batch(requests)
        assert len(stub.chats) < 10
        assert backbone.answer(None, COLOURS).letter == "A"


def test_lone_surrogates_in_a_servers_text_can_be_written(stub: StubServer, make: Make) -> None:
    stub.faults = [StubFault(400, b'{"error": {"message": "\\ud83d no"}}')]
    with pytest.raises(BackboneError) as caught:
        make(stub).answer(None, COLOURS)
    assert "\ufffd no" in str(caught.value)
    str(caught.value).encode()
    stub.faults = [StubFault(200, completion("a\ud83d", [entry("a", -0.5)]))]
    assert make(stub).generate(None, "What?").text == "a\ufffd"


# ---- where requests may go, what they carry, what of a server's words reaches the user ---------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("chats_only", [True, False])
def test_nothing_is_sent_to_another_origin(
    status: int, chats_only: bool, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    with StubServer() as other, StubServer() as stub:
        redirected = StubFault(status, b"", {"Location": f"{other.url}/chat/completions"})
        paths = ("/v1/chat/completions",) if chats_only else ("/v1/chat/completions", "/v1/models")
        stub.pages = dict.fromkeys(paths, redirected)
        with pytest.raises(BackboneError, match="redirects to another address") as caught:
            make(stub).answer(None, COLOURS)
        assert not other.seen
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "\x1b[2J\x1b]0;owned\x07no\r\x1b[31m \u202eway\u200b\x00\x9b5m"}},
        b"\x1b[2J\x1b]8;;http://evil/\x1b\\no\x1b]8;;\x1b\\ way",
        b"<html><title>no \x1b[1mway</title>",
    ],
)
def test_a_terminal_obeys_no_server(status: int, body: Any, stub: StubServer, make: Make) -> None:
    stub.faults = [StubFault(status, body)]
    with pytest.raises(BackboneError) as caught:
        make(stub, retries=0).answer(None, COLOURS)
    assert str(caught.value).isprintable()
    assert ": no way; " in f"{caught.value}; "


def test_names_of_models_are_made_printable(make: Make) -> None:
    models = [{"id": "a\x1b[2J\nb" + "c" * 5000, "root": "\x1b[2J/weights"}]
    with StubServer(models=models) as stub, pytest.raises(BackboneError, match="it offers: a b") as caught:
        make(stub).answer(None, COLOURS)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_variables_of_openais_client_are_for_openai_only(
    stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "BASE_URL": "http://127.0.0.1:1/v1",
        "API_KEY": "sk-openai",
        "ADMIN_KEY": "sk-admin",
        "ORG_ID": "org-mine",
        "PROJECT_ID": "proj-mine",
        "CUSTOM_HEADERS": "authorization: Bearer sk-custom\nX-Team: me\nContent-Type: x/y",
    }.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)
    assert make(stub, api_key_env=None).answer(None, COLOURS).letter == "A"
    for seen in stub.seen:
        assert seen.headers["authorization"] == "Bearer none"
        values = " ".join(seen.headers.values())
        assert not any(name in values for name in ("sk-", "org-mine", "proj-mine"))
        assert "x-team" not in seen.headers


def test_a_key_may_be_a_whole_header(stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, "Basic dXNlcjpwdw==")
    make(stub).answer(None, COLOURS)
    assert {seen.headers["authorization"] for seen in stub.seen} == {"Basic dXNlcjpwdw=="}
