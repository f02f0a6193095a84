"""A stub server, and backbones that speak to it without ever waiting between tries."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server_cases import KEY_ENV, Make, without_waiting
from tests.support.stub_server import StubServer
from videopro.backbones import BackboneConfig
from videopro.backbones.server import ServerBackbone


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    without_waiting(monkeypatch)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY_ENV, raising=False)
    made: list[ServerBackbone] = []

    def build(stub: StubServer | str, **settings: Any) -> ServerBackbone:
        url = stub if isinstance(stub, str) else stub.url
        settings = {"model": "served", "kind": "server", "base_url": url, "api_key_env": KEY_ENV, **settings}
        made.append(ServerBackbone(BackboneConfig(**settings)))
        return made[-1]

    yield build
    for backbone in made:
        backbone.close()
