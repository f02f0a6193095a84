"""Batches, threads, prefixes, adapters, interrupts and the end of a server backbone."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.server_cases import COLOURS, LN_05, Make, frames
from tests.support.silent_server import SilentServer
from tests.support.stub_server import StubFault, StubServer, letter, text_of
from videopro.backbones import ChoiceRequest, read_spec
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
        assert make(stub).answer_batch([]) == []
        assert len(stub.chats) == 9


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

        with ThreadPoolExecutor(1) as threads:
            threads.submit(switch_it_off)
            inside.wait(5)
            backbone.answer(None, COLOURS)
            done.set()
        assert stub.chats[0]["model"] == "tuned"


def test_ctrl_c_interrupts_at_once_and_leaves_the_backbone_usable(stub: StubServer, make: Make) -> None:
    backbone = make(stub, concurrency=4)
    backbone.answer(None, COLOURS)
    stub.faults = [StubFault(body=letter("B", [("B", -1.0)]), delay=30.0)] * 4

    def interrupt() -> None:
        until(lambda: stub.in_flight == 4)
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


def test_closing_ends_a_call_of_another_thread_and_leaves_no_thread(stub: StubServer, make: Make) -> None:
    def backbone_threads() -> int:
        return sum(thread.name == "videopro-server-backbone" for thread in threading.enumerate())

    before = backbone_threads()
    backbone = make(stub)
    stub.faults = [StubFault(body=letter("A", [("A", -1.0)]), delay=30.0)]
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(backbone.answer, None, COLOURS)
        until(lambda: len(stub.chats) > 0)
        assert backbone_threads() == before + 1
        backbone.close()
        backbone.close()
        with pytest.raises(BackboneError):
            call.result(15)
    until(lambda: backbone_threads() == before)
    with pytest.raises(BackboneError, match="closed"):
        backbone.answer(None, COLOURS)


def test_the_connection_of_a_request_in_flight_is_closed(make: Make) -> None:
    with SilentServer() as server:
        backbone = make(server.url)
        work = CancelledWork(lambda: backbone.generate(None, "Which?"))
        assert server.asked.wait(SOON)
        assert not server.hung_up.is_set()
        work.cancel()
        assert server.hung_up.wait(SOON)


def test_a_wait_before_the_next_try_ends_too_and_the_backbone_goes_on(make: Make, stub: StubServer) -> None:
    backbone = make(stub, retries=5)
    stub.faults += [StubFault(429, {"error": {"message": "later"}}, headers={"Retry-After": "100"})]
    work = CancelledWork(lambda: backbone.generate(None, "Which?"))
    until(lambda: len(stub.chats) > 0)
    work.cancel()
    assert backbone.generate(None, "Which?").text


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
    with pytest.raises(BackboneError, match=r"^server \S+ cannot be reached"):
        ServerBackbone(config.but(retries=0)).frames  # noqa: B018


@pytest.mark.parametrize(
    ("name", "value"),
    [("base_url", "localhost:8000/v1"), ("timeout", 0), ("retries", -1), ("extra_body", {"max_tokens": 3})],
)
def test_invalid_settings_are_refused(name: str, value: Any, make: Make) -> None:
    with pytest.raises(ConfigError, match="max_tokens" if name == "extra_body" else name):
        make("http://127.0.0.1:1/v1", **{name: value})
