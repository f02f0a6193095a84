"""What the environment says about proxies, certificates and keys: one line that names the variable and the
fix, before any client is made."""

import threading
from importlib.util import find_spec
from typing import Any

import pytest

from videopro.backbones import BackboneConfig
from videopro.backbones.server import Endpoint
from videopro.cli import check_connections, check_key, key_problem, proxies
from videopro.errors import ConfigError

_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTPS_PROXY", "ftp://proxy:21"),
        ("https_proxy", "socks4://proxy:1080"),
        *(("HTTP_PROXY", address) for address in ("http://proxy:99999", "http://:3128")),
        *(("ALL_PROXY", address) for address in ("http://[::1", "http://me:secret@proxy:port")),
        *(("SSL_CERT_FILE", file) for file in ("/missing.pem", "/", __file__)),
        ("SSL_CERT_DIR", "/missing"),
    ],
)
def test_what_no_client_can_use_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable} is .*unset {variable}") as caught:
        check_connections("https://example.org/v1")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    if variable == "SSL_CERT_DIR":
        check_connections("http://localhost:8000/v1")


@pytest.mark.skipif(find_spec("socksio") is not None, reason="socksio is installed")
def test_a_socks_proxy_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@localhost:1080")
    with pytest.raises(ConfigError, match=r"ALL_PROXY is socks5://localhost:1080: .*pip install socksio"):
        check_connections()


@pytest.mark.parametrize(
    "value", ["http://proxy:3128", "proxy:3128", "https://u:p@proxy", "http://[::1]:3128"]
)
def test_proxies_that_clients_know_pass(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    check_connections("https://example.org/v1")
    assert [proxy.variable for proxy in proxies()] == ["HTTPS_PROXY"]
    assert "u:p" not in proxies()[0].address


@pytest.mark.parametrize("exempt", ["*", "localhost,10.0.0.1", "other, localhost:8000"])
def test_no_proxy_exempts_a_server(monkeypatch: pytest.MonkeyPatch, exempt: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://proxy")
    monkeypatch.setenv("NO_PROXY", exempt)
    check_connections("http://localhost:8000/v1")
    if exempt != "*":
        with pytest.raises(ConfigError, match="ALL_PROXY"):
            check_connections("https://example.org/v1")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (("sk-abc\n", "  sk-abc ", "", "Basic dXNlcjpwdw=="), ""),
        (("sk-ab\nc", "sk-ab\r\nX-Other: c", "sk-ab c", "sk-ab\tc"), "invalid in a header"),
        (("schlüssel", "sk-ab\u200b", "sk-ab\x00c", "sk-ab\x1bc"), "invalid in a header"),
        (('"sk-abc"',), "quotation marks"),
    ],
)
def test_keys_that_no_header_can_carry(keys: tuple[str, ...], problem: str) -> None:
    for key in keys:
        assert problem in key_problem(key)
        assert bool(key_problem(key)) == bool(problem)


def test_the_message_about_a_key_has_its_name_and_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-geheim ü")
    with pytest.raises(ConfigError, match="MY_KEY") as caught:
        check_key("MY_KEY")
    assert "geheim" not in str(caught.value)


def _config(**settings: Any) -> BackboneConfig:
    known = {"base_url": "http://127.0.0.1:9/v1", "retries": 0, **settings}
    return BackboneConfig(model="m", kind="server", **known)


def test_an_endpoint_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*threading.enumerate()}
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        Endpoint(_config())
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("MY_KEY", "a b")
    with pytest.raises(ConfigError, match="MY_KEY"):
        Endpoint(_config(api_key_env="MY_KEY"))
    assert {*threading.enumerate()} - before == set()
