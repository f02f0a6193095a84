"""Films by their address: from public hosts alone, also after a redirect, within a size and a time."""

from __future__ import annotations

import hashlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from videopro.serve import fetching
from videopro.serve.fetching import fetch, public_address
from videopro.serve.problems import Problem

FILM = bytes(range(256)) * 40


class Site(http.server.BaseHTTPRequestHandler):
    """Answers by path."""

    asked: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        Site.asked.append((self.path, self.headers["Host"]))
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        self.send_response(404 if self.path == "/none" else 200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(FILM) * (2 if self.path == "/short" else 1)))
        self.end_headers()
        self.wfile.write(FILM)

    def log_message(self, *about: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site.server_port
        site.shutdown()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name "public.example" leads to this machine, as if it were public; other names as they do."""
    checked = fetching.public_address

    def address(host: str, port: int, url: str) -> str:
        return "127.0.0.1" if host == "public.example" else checked(host, port, url)

    monkeypatch.setattr(fetching, "public_address", address)


def fetched(url: str, part: Path, **limits: Any) -> str:
    return fetch(url, part, **{"limit": 10**6, "seconds": 20.0, **limits})


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254"),
        *("100.64.0.1", "[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[2002:7f00:1::]"),
        *("2130706433", "0x7f000001", "127.1", "224.0.0.1", "[64:ff9b::7f00:1]"),
    ],
)
def test_no_private_address_is_called(tmp_path: Path, host: str, port: int) -> None:
    before = len(Site.asked)
    with pytest.raises(Problem) as refused:
        fetched(f"http://{host}:{port}/film", tmp_path / "part")
    assert "cannot be fetched (" in str(refused.value)
    assert len(Site.asked) == before
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://public.example/a", "http://user:secret@public.example/a", "http://"),
        *("http:///a", "gopher://public.example", "http://[", "https:"),
    ],
)
def test_only_plain_web_addresses_are_fetched(tmp_path: Path, url: str, public: None) -> None:
    with pytest.raises(Problem):
        fetched(url, tmp_path / "part")


def test_a_film_is_fetched_by_the_name_that_was_checked(tmp_path: Path, port: int, public: None) -> None:
    part = tmp_path / "part"
    assert fetched(f"http://public.example:{port}/film?x=1#y", part) == hashlib.sha256(FILM).hexdigest()
    assert part.read_bytes() == FILM
    assert Site.asked[-1] == ("/film?x=1", f"public.example:{port}")


@pytest.mark.parametrize(
    ("path", "limits", "says"),
    [
        ("/none", {}, "its server answers 404"),
        ("/film", {"limit": 100}, "larger than 100 bytes"),
        ("/unsized", {"limit": 100}, "larger than 100 bytes"),
        ("/short", {}, "it ended after 10,240 of 20,480 bytes"),
        ("/film", {"seconds": -1.0}, "it takes too long"),
        ("/to/http://127.0.0.1:{port}/film", {}, "private network or on this machine"),
        ("/to/http://169.254.169.254/latest/meta-data", {}, "private network or on this machine"),
        ("/to/file:///etc/passwd", {}, "only http:// and https://"),
        ("/to/" * 8 + "/film", {}, "leads on more than 5 times"),
    ],
)
def test_what_cannot_be_fetched_leaves_nothing(
    tmp_path: Path, port: int, public: None, path: str, limits: dict[str, Any], says: str
) -> None:
    with pytest.raises(Problem, match=says):
        fetched(f"http://public.example:{port}{path.format(port=port)}", tmp_path / "part", **limits)
    assert not (tmp_path / "part").exists()


def test_one_private_address_among_others_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: int, **about: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in ("93.184.216.34", "10.0.0.7")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(Problem, match="private network"):
        public_address("two.example", 80, "http://two.example")
