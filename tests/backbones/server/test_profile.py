"""What a server tells of itself, asked once by any number of threads, and which engine is behind one that
does not name it, such as Ray Serve LLM."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, RAY_CARD, Make, frames
from tests.support.stub_server import BadRequest, StubServer, letter
from videopro.backbones import BackboneConfig, ChoiceRequest, folder_fingerprint
from videopro.backbones.server.profile import ServerProfile
from videopro.errors import BackboneError

BUDGET = {"frames": 4, "pixels": 1024}
NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


def vllm(body: dict[str, Any]) -> Any:
    """Replies as vLLM behind Ray: with the ids of the prompt where they are asked for, else with none."""
    if "media_io_kwargs" in body:
        raise BadRequest("Per-request media_io_kwargs are disabled by default.")
    ids = [1, 2, 3] if body.get("return_token_ids") else None
    return {**letter("A", [("A", -0.5)]), "prompt_token_ids": ids}


def test_ray_serve_is_recognised_by_the_ids_that_only_vllm_returns(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with StubServer(vllm, models=[RAY_CARD]) as stub:
        backbone = make(stub, **BUDGET)
        backbone.answer_batch([ChoiceRequest(frames([1.0, 2.0]), COLOURS, prefill="Best option: (")])
        assert backbone.identity()["engine"] == "vllm"
        asked = [body for body in stub.chats if "return_token_ids" in body]
        assert [(body["model"], body["max_tokens"]) for body in asked] == [("served", 1)]
        # Beside requests that ask what the server can do.
        (sent,) = [body for body in stub.chats if body.get("continue_final_message")]
        assert {name: sent[name] for name in NEUTRAL} == NEUTRAL
        assert sent["chat_template_kwargs"] == {"enable_thinking": False}
        (note,) = backbone.notes
        assert note.startswith("frames are sent as images")
        assert "--trust-request-mm-kwargs" in note
        # Where a video was asked for, nothing else is sent.
        with pytest.raises(BackboneError, match=r"status 400.*start vLLM with --trust-request-mm-kwargs"):
            make(stub, video="video", engine="vllm", **BUDGET).answer(frames([1.0, 2.0]), COLOURS)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def refuses(body: dict[str, Any]) -> Any:
    """As a strict server."""
    if "return_token_ids" in body:
        raise BadRequest("Unrecognized request argument supplied: return_token_ids")
    return letter("A", [("A", -0.5)])


@pytest.mark.parametrize("reply", [None, refuses])
@pytest.mark.parametrize("models", [[RAY_CARD], [{"id": "served"}], None])
def test_a_server_that_shows_nothing_is_a_warning_that_names_the_setting(
    make: Make, reply: Any, models: Any
) -> None:
    with StubServer(reply, models=models) as stub:
        backbone = make(stub, **BUDGET)
        backbone.answer(None, COLOURS)
        backbone.answer(None, COLOURS)
        (note,) = backbone.notes
        assert "pass --backbone engine=vllm or engine=sglang" in note
        assert len(stub.chats) == 3
        for sent in stub.chats[1:]:
            assert not set(sent) & {*NEUTRAL, "chat_template_kwargs", "return_token_ids"}
        with pytest.raises(BackboneError, match="if it is one, pass --backbone engine=vllm"):
            backbone.answer_batch([ChoiceRequest(None, COLOURS, prefill="(")])


def test_a_dead_server_is_not_taken_for_one_without_a_name(make: Make) -> None:
    with StubServer(models=[RAY_CARD], key="right") as stub, pytest.raises(BackboneError, match="key"):
        make(stub, **BUDGET).answer(None, COLOURS)


@pytest.mark.parametrize(("engine", "named"), [("vllm", "vllm"), ("sglang", "sglang"), ("other", None)])
def test_the_setting_says_it_without_a_request(make: Make, engine: str, named: str | None) -> None:
    with StubServer(models=[{"id": "served", "owned_by": None}]) as stub:
        backbone = make(stub, engine=engine, **BUDGET)
        backbone.answer(None, COLOURS)
        (sent,) = stub.chats
        assert "return_token_ids" not in sent
        assert {name: sent.get(name) for name in NEUTRAL} == (NEUTRAL if named else dict.fromkeys(NEUTRAL))
        assert backbone.notes == ()
        assert backbone.identity()["engine"] == named
        # A gateway that names itself is told apart too; an engine's own word comes first.
        stub.models = [{"id": "served", "owned_by": "openai"}]
        assert make(stub, engine=engine, **BUDGET).identity()["engine"] == (named or "openai")
        stub.models = [{"id": "served", "owned_by": "sglang"}]
        assert make(stub, engine=engine, **BUDGET).identity()["engine"] == "sglang"


@pytest.mark.parametrize("engine", ["auto", "vllm"])
@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "https://me.openai.azure.com/openai/v1"])
def test_openai_itself_gets_no_field_of_an_engine(url: str, engine: Any) -> None:
    config = BackboneConfig("m", kind="server", base_url=url, engine=engine)
    # It lists a model without an owner, and is asked nothing else.
    silent: Any = SimpleNamespace(url=url, models=lambda: [{"id": "m", "owned_by": "organization-owner"}])
    profile = ServerProfile(config, silent, "", lambda *_, **__: pytest.fail("asked"))
    assert (profile.engine, profile.notes) == ("organization-owner", ())


def test_each_thing_is_asked_once(make: Make) -> None:
    """Sixteen threads, for which a lock that is not held would send several lists and several probes."""
    with StubServer(models=[{"id": "served", "owned_by": None}], takes_video="times") as stub:
        backbone = make(stub)
        start = threading.Barrier(16)

        def ask() -> None:
            start.wait()
            backbone.identity()
            _ = backbone.frames, backbone.profile.record, backbone.profile.weights

        with ThreadPoolExecutor(16) as threads:
            for _ in range(16):
                threads.submit(ask)
        assert [seen.path for seen in stub.seen].count("/v1/models") == 1
        # The engine, and a video at two start times.
        assert len(stub.chats) == 3
        assert len(backbone.notes) == 2


def test_the_version_of_vllm_and_the_files_of_its_model_are_known(make: Make, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    card = {"id": "served", "owned_by": "vllm", "root": str(tmp_path)}
    with StubServer(models=[card], version="0.33.0") as stub:
        backbone = make(stub)
        for _ in range(2):
            assert backbone.versions == {"vllm": "0.33.0", "served model": folder_fingerprint(tmp_path)}
        assert [seen.path for seen in stub.seen].count("/version") == 1
    with StubServer(models=[card | {"root": "org/name"}]) as stub:
        assert make(stub).versions == {}
    with StubServer(models=[{"id": "served", "owned_by": "sglang"}], version="1") as stub:
        assert make(stub).versions == {}
