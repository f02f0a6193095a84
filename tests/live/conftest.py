"""A real vLLM with the pocket model, started by `launch/live.sh`, and the same model in this process."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live_engine import Engine
from videopro.backbones import Backbone, load_backbone
from videopro.video import Frame, Video


@pytest.fixture(scope="session")
def engine() -> Engine:
    url, pid_file = os.environ.get("LIVE_ENGINE"), os.environ.get("LIVE_ENGINE_PID")
    if not url or not pid_file:
        pytest.fail("these tests need an engine: run them with bash launch/live.sh")
    return Engine(url, Path(pid_file))


@pytest.fixture(scope="session")
def served(engine: Engine) -> Iterator[Backbone]:
    with_defaults = load_backbone(f"server:pocket@{engine.url}")
    yield with_defaults
    with_defaults.close()


@pytest.fixture(scope="session")
def local() -> Backbone:
    return load_backbone("pocket")


@pytest.fixture(scope="session")
def video() -> Video:
    from videopro.backbones import find_video

    return Video.open(find_video(Path("pocket:test/short_000")))


@pytest.fixture(scope="session")
def seen(video: Video, local: Backbone) -> list[Frame]:
    """Sixteen frames over the whole video, as both backbones decode them."""
    return list(video.sample(16, size=local.frame_size(video.height, video.width, 16)))
