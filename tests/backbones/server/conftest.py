"""A stub server, and backbones that speak to it without ever waiting between tries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server_cases import KEY_ENV, BackoffDelays, Make
from tests.support.stub_server import StubServer
from videopro.backbones import BackboneConfig
from videopro.backbones.server import ServerBackbone


@pytest.fixture
def waits() -> BackoffDelays:
    return BackoffDelays()


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture
def make(waits: BackoffDelays, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY_ENV, raising=False)
    made: list[ServerBackbone] = []

    def build(stub: StubServer | str, **settings: Any) -> ServerBackbone:
        url = stub if isinstance(stub, str) else stub.url
        settings = {"model": "served", "kind": "server", "base_url": url, "api_key_env": KEY_ENV, **settings}
        made.append(ServerBackbone(BackboneConfig(**settings), sleep=waits.sleep, uniform=lambda: 1.0))
        return made[-1]

    yield build
    for backbone in made:
        backbone.close()
