"""Clients at a real address that hang up, whose work ends and nobody else's, or that keep the server
waiting."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from starlette.datastructures import UploadFile

from tests.support.colours import make_video, wait_for
from tests.support.served import World, message, served
from videopro.serve import guards

HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("hang")
    world = World(folder, at_once=2, waiting=8)
    yield world
    world.close()


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with served(world) as address:
        yield address


def connected(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname or "", url.port or 0))


def post(address: str, path: str, content: bytes, length: int | None = None) -> socket.socket:
    """A request whose reply nobody has read yet."""
    sock = connected(address)
    length = len(content) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    kind = "multipart/form-data; boundary=x" if path == "/v1/files" else "application/json"
    sock.sendall(f"{head}Content-Type: {kind}\r\n\r\n".encode() + content)
    return sock


def ask(world: World, address: str, text: str, *, stream: bool) -> socket.socket:
    chat = {"model": "colours", "stream": stream, "messages": [message(world.video(), text)]}
    asked = {**chat, "videopro": {"choices": ["red", "green", "blue"]}}
    return post(address, "/v1/chat/completions", json.dumps(asked).encode())


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_stops_its_question(world: World, address: str, stream: bool) -> None:
    ended = len(world.backbone.ended)
    sock = ask(world, address, "Which? (slow)", stream=stream)
    assert world.backbone.begun.acquire(timeout=20)
    began = time.monotonic()
    sock.close()
    wait_for(lambda: len(world.backbone.ended) > ended)
    assert world.state.line.wait_until_idle(20)
    assert world.backbone.ended[-1] - began < 5, "on a busy machine; perf/serving_clients.json has the times"
    last = world.state.questions.list()[0]
    assert last["state"] == "stopped"
    page = world.client.get(f"/v1/videopro/questions/{last['id']}").json()
    assert re.fullmatch(r"stopped after \d+\.\d s: the client disconnected", page["error"]["message"])


def test_a_page_that_leaves_stops_nothing(world: World, address: str) -> None:
    question = world.ask(world.video(), question="Which? (slow)")
    assert world.backbone.begun.acquire(timeout=20)
    sock = connected(address)
    sock.sendall(f"GET /v1/videopro/questions/{question}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert b"200 OK" in sock.recv(1000)
    sock.close()
    world.backbone.go_on.set()
    try:
        assert world.state.line.wait_until_idle(20)
    finally:
        world.backbone.go_on.clear()
    shown = world.client.get(f"/v1/videopro/questions/{question}").json()
    assert (shown["running"], shown["final"]["letter"]) == (False, "B")


def test_an_upload_that_breaks_off_leaves_nothing(world: World, address: str) -> None:
    sock = post(address, "/v1/files", HEAD + b"\0" * 5000, length=10**6)
    wait_for(lambda: list(world.state.videos.incoming.iterdir()))
    sock.close()
    wait_for(lambda: not list(world.state.videos.incoming.iterdir()))


HALF = [
    # A body, chunks, and a form.
    b"POST /v1/videopro/questions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
    b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n-\r\n",
    b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n"
    b'Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nContent-Disposition: form-data; name="file"'
    b"\r\n\r\nof a video",
]


def test_half_requests_end(world: World, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "PAUSE_SECONDS", 1.0)
    began = time.monotonic()
    socks = [connected(address) for _ in range(60)]
    for sock, half in zip(socks, HALF * 20, strict=True):
        sock.sendall(half)
    for sock in socks:
        sock.settimeout(30)
        with suppress(ConnectionResetError):
            while sock.recv(10_000):
                pass
        sock.close()
    assert 0.9 < time.monotonic() - began < 20
    wait_for(lambda: not list(world.state.videos.incoming.iterdir()))


def test_a_slow_client_and_a_slow_disk_are_waited_for(
    world: World, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "PAUSE_SECONDS", 1.0)
    written = UploadFile.write

    async def slowly(upload: UploadFile, data: bytes) -> None:
        if not upload.size:
            await anyio.sleep(2.5)
        await written(upload, data)

    monkeypatch.setattr(UploadFile, "write", slowly)
    make_video(world.folder / "blue.mp4", "blue")
    # A box "free" of MP4, so that there is more of it than the server reads ahead.
    video = (
        (world.folder / "blue.mp4").read_bytes() + (2**20).to_bytes(4, "big") + b"free" + b"\0" * (2**20 - 8)
    )
    form = HEAD + video + b"\r\n--x--\r\n"
    sock = post(address, "/v1/files", form, len(form))
    assert b" 200 OK" in sock.recv(1000)
    sock.close()
    question = json.dumps({"file_id": "none", "question": "Which?"}).encode()
    sock = post(address, "/v1/videopro/questions", question[:1], len(question))
    for letter in question[1:]:
        sock.sendall(bytes([letter]))
        time.sleep(0.05)
    assert b" 400 Bad Request" in sock.recv(1000)
    sock.close()
