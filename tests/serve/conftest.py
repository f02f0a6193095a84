"""Servers for the tests of this folder, and a browser for those of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.support.browser import browser
from tests.support.served import World

__all__ = ["browser", "world"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that the tests of a module share."""
    folder: Path = tmp_path_factory.mktemp("serve")
    videos = folder / "videos"
    videos.mkdir()
    world = World(folder, folders=(videos,), video_bytes=200_000, json_bytes=50_000)
    yield world
    world.close()


@pytest.fixture(scope="module")
def client(world: World) -> OpenAI:
    return OpenAI(base_url="http://localhost/v1", api_key="none", http_client=world.client, max_retries=0)
