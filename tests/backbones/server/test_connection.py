"""Where requests may go, what they carry, and what of a server's error reaches the user."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.server_cases import COLOURS, KEY, KEY_ENV, Make
from tests.support.stub_server import StubFault, StubServer
from videopro.errors import BackboneError


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
        with pytest.raises(BackboneError, match="sends requests on to another address") as caught:
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
