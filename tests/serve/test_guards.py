"""Who may call: keys, origins, names of the server, the size of a request; and the server behind a proxy."""

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
from tests.support.served import QUESTION, World, message, served
from videopro.errors import ConfigError
from videopro.serve import create_app
from videopro.serve.guards import COOKIE
from videopro.serve.problems import problem_of
from videopro.serve.questions import AskedQuestion

KEY = {"Authorization": "Bearer sesame"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder: Path = tmp_path_factory.mktemp("keyed")
    return World(
        folder,
        keys=("sesame", "other"),
        hosts=("Videos.example",),
        origins=("https://allowed.example",),
        json_bytes=1000,
    )


def test_a_key_is_needed_for_all_but_health_and_the_page(keyed: World) -> None:
    get = keyed.client.get
    assert get("/health").json()["status"] == "ok"
    assert get("/").status_code == 200
    for path in ("/v1/models", "/v1/files", "/v1/videopro/questions", "/metrics", "/openapi.json", "/none"):
        reply = get(path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key"), path
        assert "Authorization: Bearer KEY" in reply.json()["error"]["message"]
    for value in ("Bearer wrong", "Bearer ", "sesame", "Basic sesame", "Bearer sesamé", "Bearer sesame2"):
        assert get("/v1/models", headers={"Authorization": value.encode()}).status_code == 401
    for key in ("sesame", "other"):
        assert get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200


SERVER = "server http://10.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("a.mp4: has no subtitles; add them", None),
        ("tau is 5; it must be from 0 to 1", None),
        ("'a/b.srt': a subtitle file is needed", None),
        (
            "method 'dvd' needs other model settings; start the server with --backbone frames=8",
            "method 'dvd' needs other model settings; ask the operator",
        ),
        (
            f"{SERVER} cannot be reached (ConnectError); start it (such as vllm serve m), or fix it",
            "the model's server does not answer; try again later, or ask the operator",
        ),
        (
            f"planner m: {SERVER} refused the request (status 400): maximum context length is 9; start vLLM",
            "the model refused this question; shorten it, use fewer frames, or ask the operator",
        ),
        *(
            (operators, "this server is not set up for this; ask the operator")
            for operators in (
                "detector: needs torchvision: pip install torchvision; or leave it out",
                "/srv/weights/m: cannot be read; restore it",
            )
        ),
    ],
)
def test_what_only_the_operator_can_use_is_in_the_log_only(
    caplog: pytest.LogCaptureFixture, message: str, told: str | None
) -> None:
    assert str(problem_of(ConfigError(message), "GET /a")) == (told or message)
    assert [each.getMessage() for each in caplog.records] == ([f"GET /a: {message}"] if told else [])


def test_a_request_is_a_line_of_the_log_without_its_key(
    keyed: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "videopro")
    keyed.client.head("/v1/models", headers=KEY)
    keyed.client.get("/none%0A2026 forged?key=sesame", headers=KEY)
    keyed.client.get("/v1/models?key=sesame", headers={"Authorization": "Bearer sesame2"})
    wanted = (
        r"HEAD /v1/models: 200 in \d+ ms \(testclient\)",
        r"GET /none 2026 forged: 404 in \d+ ms \(testclient\): no such path: .*",
        r"GET /v1/models: 401 in \d+ ms \(testclient\): this server needs a key; .*",
    )
    for line, says in zip(caplog.messages, wanted, strict=True):
        assert re.fullmatch(says, line), line
    assert "sesame" not in caplog.text


def test_a_session_reads_and_never_writes(keyed: World) -> None:
    browser = TestClient(keyed.app, base_url="http://localhost")
    assert browser.post("/v1/videopro/session").status_code == 401
    begun = browser.post("/v1/videopro/session", headers=KEY)
    assert begun.is_success
    cookie = begun.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "sesame" not in cookie
    assert browser.get("/v1/files").status_code == 200
    assert browser.post("/v1/files", files={"file": b"video"}).status_code == 401
    assert browser.delete("/v1/files/file-1").status_code == 401
    browser.cookies.set(COOKIE, "forged", domain="localhost.local")
    forged = TestClient(keyed.app, base_url="http://localhost", cookies={COOKIE: "sesame"})
    assert forged.get("/v1/files").status_code == 401


def test_pages_of_other_sites_are_refused(keyed: World) -> None:
    get = keyed.client.get
    other = get("/v1/files", headers={**KEY, "Origin": "https://evil.example"})
    assert (other.status_code, other.json()["error"]["code"]) == (403, "wrong_origin")
    assert "access-control-allow-origin" not in other.headers
    for origin in ("null", "http://localhost.evil.example", "http://localhost:1", "file://", "http://["):
        assert get("/v1/files", headers={**KEY, "Origin": origin}).status_code == 403
    own = get("/v1/files", headers={**KEY, "Origin": "http://localhost"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers
    allowed = get("/v1/files", headers={**KEY, "Origin": "https://allowed.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://allowed.example"
    asked = keyed.client.options("/v1/files", headers={"Origin": "https://allowed.example"})
    assert (asked.status_code, "DELETE" in asked.headers["access-control-allow-methods"]) == (200, True)
    assert keyed.client.options("/v1/files", headers={"Origin": "https://evil.example"}).status_code == 403


ITS_NAMES = (
    *("localhost", "127.0.0.1:8080", "[::1]:8080", "192.168.1.7", "[2001:db8::1]:8080", "videos.localhost"),
    *("videos.example", "VIDEOS.example:8080"),
)
OTHER_NAMES = (
    *("rebound.example", "localhost.evil.example", "evil.example@127.0.0.1", "127.0.0.1#evil.example"),
    *("localhost:evil.example", "2130706433", "192.168.1.7.evil.example", "", "["),
)


def test_the_server_is_called_by_addresses_and_by_names_that_its_operator_gave(keyed: World) -> None:
    for hosts, status in ((ITS_NAMES, 200), (OTHER_NAMES, 403)):
        found = {host: keyed.client.get("/health", headers={"Host": host}).status_code for host in hosts}
        assert found == dict.fromkeys(hosts, status)


def test_a_browser_runs_nothing_of_a_video_and_shows_nothing_in_other_pages(keyed: World) -> None:
    for path, headers, status in (
        ("/", {}, 200),
        ("/v1/files", KEY, 200),
        ("/v1/files", {}, 401),
        ("/v1/files/none/frame?time=1", KEY, 404),
        ("/none", KEY, 404),
        ("/health", {"Host": "rebound.example"}, 403),
    ):
        reply = keyed.client.get(path, headers=headers)
        assert (reply.status_code, reply.headers["cross-origin-resource-policy"]) == (status, "same-origin")
    reply = keyed.client.get("/health")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]


def test_a_large_request_is_refused_also_if_it_says_it_is_small(keyed: World) -> None:
    headers = {**KEY, "content-type": "application/json"}
    for path in ("/v1/chat/completions", "/v1/videopro/questions", "/v1/videopro/videos"):
        told = keyed.client.post(path, headers=headers, content=b" " * 2000)
        untold = keyed.client.post(path, headers=headers, content=iter([b" " * 600] * 10))
        for reply in (told, untold):
            assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large"), path
            assert "larger than 1,000 bytes" in reply.json()["error"]["message"]
        largest = keyed.client.post(path, headers=headers, content=iter([b" " * 500] * 2))
        assert largest.status_code != 413


def test_every_route_has_a_limit(keyed: World) -> None:
    with_a_file = {"/v1/files": 8 * 2**30, "/v1/files/none/subtitles": 2**25}
    paths = keyed.app.openapi()["paths"]
    assert len(paths) > 15
    for path, methods in paths.items():
        path = re.sub(r"\{\w+\}", "none", path)
        for method in methods:
            # A form has little beside its file.
            most = with_a_file[path] + 2**16 if method == "post" and path in with_a_file else 1000
            sent = {**KEY, "content-length": str(most + 1)}
            assert keyed.client.request(method, path, headers=sent).status_code == 413, (method, path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Range", f"bytes={'9' * 5000}-"),
        ("Range", "bytes=²-"),
        ("Last-Event-ID", "9" * 5000),
        ("If-None-Match", "9" * 5000),
        ("Content-Length", "9" * 5000),
        ("Content-Type", f"multipart/form-data; boundary={'x' * 60_000}"),
        ("Authorization", "Bearer é"),
        ("Cookie", "videopro_session=é"),
        ("Origin", "http://["),
        ("Host", "[::1"),
    ],
)
def test_no_header_is_a_crash(world: World, name: str, value: str) -> None:
    video = world.video()
    question = world.ask(video)
    headers = {name: value.encode("latin-1")}
    for path in (f"files/{video}", f"files/{video}/content", f"videopro/questions/{question}/events"):
        assert world.client.get(f"/v1/{path}", headers=headers).status_code < 500
    for path in ("files", f"files/{video}/subtitles", "videopro/questions", "chat/completions"):
        assert 400 <= world.client.post(f"/v1/{path}", headers=headers, content=b"--").status_code < 500


@pytest.mark.parametrize(
    "sent",
    [
        b'{"model": "colours", "messages": [{"role": "user", "content": [{"type": "text", "text": "Which?"},'
        b'{"type": "file", "file": {"file_id": "folder:\\ud800"}}]}]}',
        b"[" * 40_000,
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_no_json_is_a_crash(world: World, sent: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = world.client.post("/v1/chat/completions", headers=headers, content=sent)
    assert 400 <= reply.status_code < 500
    assert reply.json()["error"]["code"] != "no_route"


# ---- behind a proxy --------------------------------------------------------------------------------------

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
    assert client.get(f"{path}/assets/app.js").status_code == 200
    assert client.get(f"{path}/health").status_code == 200
    for hidden in ("/v1/models", "/v1/files", "/healthy"):
        assert client.get(f"{path}{hidden}").status_code == 401, hidden
    assert client.get(f"{path}/v1/models", headers=KEY).status_code == 200
    video = keyed.folder / "green.mp4"
    make_video(video, "green")
    assert video.stat().st_size > 1000, "more than any other request may have"
    sent = client.post(f"{path}/v1/files", files={"file": video.read_bytes()}, headers=KEY)
    assert sent.status_code == 200, sent.text
    begun = client.post(f"{path}/v1/videopro/session", headers=KEY)
    assert "path=/videos/;" in begun.headers["set-cookie"].lower()
    # As a browser sends the cookie, for a player.
    content = client.get(f"{path}/v1/files/{sent.json()['id']}/content", headers={"Cookie": cookie_of(begun)})
    assert content.content == video.read_bytes()


def cookie_of(reply: httpx2.Response) -> str:
    return str(reply.headers["set-cookie"]).split(";")[0]


def test_events_are_not_held_back_by_a_proxy(world: World) -> None:
    video = world.video()
    chat = {"model": "colours", "stream": True, "messages": [message(video)]}
    for reply in (
        world.client.get(f"/v1/videopro/questions/{world.ask(video)}/events"),
        world.client.post("/v1/chat/completions", json=chat),
    ):
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.text
        assert (reply.headers["x-accel-buffering"], reply.headers["cache-control"]) == ("no", "no-store")


def test_clients_of_a_proxy_are_told_apart_by_the_addresses_that_it_names(tmp_path: Path) -> None:
    world = World(tmp_path, keys=("sesame",))
    asked = {**QUESTION, "file_id": world.video(headers=KEY)}
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
