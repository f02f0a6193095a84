"""Batches, threads, prefixes, adapters, interrupts and the end of a server backbone."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, LN_05, Make, frames
from tests.support.stub_server import StubFault, StubServer, letter, text_of
from videopro.backbones import ChoiceRequest, load_backbone, read_spec
from videopro.backbones.checks import identify
from videopro.backbones.server import ServerBackbone
from videopro.backbones.server import messages as server_messages
from videopro.errors import BackboneError, ConfigError
from videopro.question import Question


def meeting(size: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Replies with the letter named in the prompt, once `size` requests are there at the same time.

    The request that says A is answered last of those that it meets.
    """
    together = threading.Barrier(size, timeout=20)

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        together.wait()
        wanted = re.search(r"say ([A-J])", text_of(body)).group(1)  # type: ignore[union-attr]
        time.sleep(0.1 if wanted == "A" else 0.0)
        return letter(wanted, [(wanted, LN_05)])

    return reply


def test_a_batch_keeps_its_order_and_the_bound_on_requests_in_flight(make: Make) -> None:
    question = Question("?", tuple("abcdefghi"))
    requests = [ChoiceRequest(None, question, f"say {name}") for name in question.letters]
    with StubServer(meeting(3)) as stub:
        answers = make(stub, concurrency=3).answer_batch(requests)
        assert [answer.letter for answer in answers] == list(question.letters)
        assert stub.peak == 3


def test_threads_share_the_bound(make: Make) -> None:
    with StubServer(meeting(2)) as stub:
        backbone = make(stub, concurrency=2)
        threads = [
            threading.Thread(target=backbone.answer, args=(None, COLOURS), kwargs={"prompt": "say A"})
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stub.chats) == 6
        assert stub.peak == 2


def test_an_empty_batch_sends_no_request(stub: StubServer, make: Make) -> None:
    assert make(stub).answer_batch([]) == []
    assert not stub.seen


def test_frames_are_encoded_once_for_a_prefix(
    stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    original = server_messages.jpeg
    monkeypatch.setattr(server_messages, "jpeg", lambda *args: encoded.append(1) or original(*args))
    backbone = make(stub, video="frames")
    with backbone.prefix(frames([0.0, 1.0])) as prefix:
        for prompt in ("say A", "say B"):
            backbone.answer(prefix, COLOURS, prompt=prompt)
        assert len(encoded) == 2
        assert [frame.time for frame in prefix.frames] == [0.0, 1.0]
    first, second = (body["messages"][0]["content"] for body in stub.chats)
    # All but the question is the same, byte for byte: what a server's prefix cache needs.
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
    assert prefix.closed
    with pytest.raises(BackboneError, match="closed"):
        backbone.answer(prefix, COLOURS)
    with pytest.raises(BackboneError, match="another backbone"):
        make(stub, video="frames").answer(backbone.prefix(frames([0.0])), COLOURS)


TUNED = [{"id": "served", "owned_by": "stub"}, {"id": "tuned", "owned_by": "stub"}]


def test_an_adapter_is_another_model_name(make: Make) -> None:
    with StubServer(models=TUNED) as stub:
        backbone = make(stub, adapter_model="tuned")
        backbone.answer(None, COLOURS)
        with backbone.adapter(False):
            backbone.answer(None, COLOURS)
            with backbone.adapter(True):
                backbone.answer(None, COLOURS)
            backbone.answer(None, COLOURS)
        backbone.answer(None, COLOURS)
        assert [body["model"] for body in stub.chats] == ["tuned", "served", "tuned", "served", "tuned"]
        plain = make(stub)
        with plain.adapter(False):
            plain.answer(None, COLOURS)
        with pytest.raises(BackboneError, match="adapter_model"), plain.adapter(True):
            pass
    with StubServer() as stub, pytest.raises(BackboneError, match="no model 'tuned'; it offers: served"):
        make(stub, adapter_model="tuned").answer(None, COLOURS)


def test_adapter_blocks_of_two_threads_do_not_meet(make: Make) -> None:
    with StubServer(models=TUNED) as stub:
        backbone = make(stub, adapter_model="tuned")
        inside, done = threading.Event(), threading.Event()

        def switch_it_off() -> None:
            with backbone.adapter(False):
                inside.set()
                done.wait(5)

        thread = threading.Thread(target=switch_it_off)
        thread.start()
        inside.wait(5)
        backbone.answer(None, COLOURS)
        done.set()
        thread.join()
        assert stub.chats[0]["model"] == "tuned"


def test_ctrl_c_interrupts_at_once_and_leaves_the_backbone_usable(stub: StubServer, make: Make) -> None:
    backbone = make(stub, concurrency=4)
    backbone.answer(None, COLOURS)
    stub.faults = [StubFault(body=letter("B", [("B", -1.0)]), delay=30.0)] * 4

    def interrupt() -> None:
        while stub.in_flight < 4:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        backbone.answer_batch([ChoiceRequest(None, COLOURS)] * 12)
    assert time.monotonic() - start < 15
    thread.join()
    # The eight that waited for a place are never sent.
    asked = len(stub.chats)
    assert asked == 1 + 4
    assert backbone.answer(None, COLOURS).letter == "A"
    assert len(stub.chats) == asked + 1


def test_after_close_calls_are_refused_and_no_thread_is_left(stub: StubServer, make: Make) -> None:
    def backbone_threads() -> int:
        return sum(thread.name == "videopro-server-backbone" for thread in threading.enumerate())

    before = backbone_threads()
    backbone = make(stub)
    backbone.answer(None, COLOURS)
    assert backbone_threads() == before + 1
    backbone.close()
    backbone.close()
    deadline = time.monotonic() + 5
    while backbone_threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert backbone_threads() == before
    with pytest.raises(BackboneError, match="closed"):
        backbone.answer(None, COLOURS)


def test_closing_ends_a_call_of_another_thread(stub: StubServer, make: Make) -> None:
    backbone = make(stub)
    stub.faults = [StubFault(body=letter("A", [("A", -1.0)]), delay=30.0)]
    caught: list[BaseException] = []

    def call() -> None:
        try:
            backbone.answer(None, COLOURS)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not stub.chats:
        time.sleep(0.01)
    backbone.close()
    thread.join(15)
    assert not thread.is_alive()
    assert isinstance(caught[0], BackboneError)


def test_load_backbone_makes_one_from_a_short_name(stub: StubServer) -> None:
    backbone = load_backbone(f"server:served@{stub.url}", frames=16)
    assert isinstance(backbone, ServerBackbone)
    assert (backbone.name, backbone.frames) == ("served", 16)
    assert backbone.answer(None, COLOURS).letter == "A"
    backbone.close()


def test_the_identity_holds_what_shapes_an_answer_and_no_address(make: Make) -> None:
    with StubServer(takes_video="times") as first, StubServer(takes_video="times") as second:
        identities = [make(stub).identity() for stub in (first, second)]
        assert identities[0] == identities[1] == json.loads(json.dumps(identities[0]))
        assert identities[0]["video"] == "video"
        assert make(first, pixels=1024).identity() != identities[0]
        assert make(first, extra_body={"top_k": 1}).identity() != identities[0]
        assert make(first, video="frames").identity() != identities[0]


def test_identifying_a_server_takes_one_small_request(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer(takes_video="times") as stub:
        recorded = make(stub).identity()
        stub.seen.clear()
        config = read_spec(f"server:served@{stub.url}")
        assert identify(config, recorded) == recorded
        assert [seen.path for seen in stub.seen] == ["/v1/models"]
        assert identify(config.but(video="frames"), recorded)["video"] == "frames"
    with pytest.raises(BackboneError, match="cannot be reached"):
        identify(config, recorded)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": "localhost:8000/v1"}, "http://"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"extra_body": {"max_tokens": 3}}, "max_tokens"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], words: str, make: Make) -> None:
    with pytest.raises(ConfigError, match=words):
        make("http://127.0.0.1:1/v1", **settings)
