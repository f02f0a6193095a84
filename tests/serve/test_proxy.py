"""The server behind a reverse proxy: below a path, and for clients that the proxy names."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from tests.support.colours import make_video
from tests.support.served import QUESTION, World, served
from videopro.serve import create_app
from videopro.serve.questions import AskedQuestion

KEY = {"Authorization": "Bearer sesame"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("keyed"), keys=("sesame",), json_bytes=1000)


# The path that a client asks for, what arrives of it, and how the server is told.
WAYS = {
    "taken off": ("", lambda world: create_app(world.state, "/videos")),
    "left": ("/videos", lambda world: create_app(world.state, "/videos")),
    "mounted": ("/videos", lambda world: Starlette(routes=[Mount("/videos", world.app)])),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def below(request: pytest.FixtureRequest, keyed: World) -> tuple[TestClient, str]:
    """A client of the server below /videos, and the path with which its requests arrive."""
    path, made = request.param
    app: ASGIApp = made(keyed)
    return TestClient(app, base_url="http://localhost"), path


def test_the_page_and_the_protocol_work_below_a_path(below: tuple[TestClient, str], keyed: World) -> None:
    client, path = below
    page = client.get(f"{path}/")
    assert page.status_code == 200, "it needs no key"
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(named) > 10
    for name in named:
        # Relative, so that the browser asks for it below the same path.
        assert re.match(r"assets/|data:|#", name), name
    assert client.get(f"{path}/assets/page.js").status_code == 200
    assert client.get(f"{path}/health").status_code == 200
    for hidden in ("/v1/models", "/v1/files", "/healthy"):
        assert client.get(f"{path}{hidden}").status_code == 401, hidden
    assert client.get(f"{path}/v1/models", headers=KEY).status_code == 200
    film = keyed.folder / "green.mp4"
    make_video(film, "green")
    assert film.stat().st_size > 1000, "more than any other request may have"
    sent = client.post(f"{path}/v1/files", files={"file": film.read_bytes()}, headers=KEY)
    assert sent.status_code == 200, sent.text
    begun = client.post(f"{path}/v1/videopro/session", headers=KEY)
    assert "path=/videos/;" in begun.headers["set-cookie"].lower()
    # As a browser sends the cookie, for a player.
    content = client.get(f"{path}/v1/files/{sent.json()['id']}/content", headers={"Cookie": cookie_of(begun)})
    assert content.content == film.read_bytes()


def cookie_of(reply: httpx2.Response) -> str:
    return str(reply.headers["set-cookie"]).split(";")[0]


def test_events_are_not_held_back_by_a_proxy(world: World) -> None:
    film = world.film()
    content = [{"type": "text", "text": "Which?"}, {"type": "file", "file": {"file_id": film}}]
    chat = {"model": "colours", "stream": True, "messages": [{"role": "user", "content": content}]}
    for reply in (
        world.client.get(f"/v1/videopro/questions/{world.ask(film)}/events"),
        world.client.post("/v1/chat/completions", json=chat),
    ):
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.text
        assert (reply.headers["x-accel-buffering"], reply.headers["cache-control"]) == ("no", "no-store")


def test_clients_of_a_proxy_are_told_apart_by_the_addresses_that_it_names(tmp_path: Path) -> None:
    world = World(tmp_path, keys=("sesame",))
    asked = {**QUESTION, "file_id": world.film(headers=KEY)}
    clients = []
    with served(world) as address, httpx2.Client(base_url=address, headers=KEY, trust_env=False) as http:
        for named in ("203.0.113.7", "198.51.100.9, 203.0.113.7"):
            # The proxy's own client is the last; what that one says of others may be made up.
            reply = http.post("/v1/videopro/questions", json=asked, headers={"X-Forwarded-For": named})
            question = world.state.questions.find(reply.json()["id"])
            assert isinstance(question, AskedQuestion)
            clients.append(question.client.rpartition("@")[2])
        cookies = [
            http.post("/v1/videopro/session", headers={"X-Forwarded-Proto": scheme}).headers["set-cookie"]
            for scheme in ("https", "http")
        ]
    assert clients == ["203.0.113.7"] * 2
    assert ["secure" in cookie.lower() for cookie in cookies] == [True, False]
    world.close()
