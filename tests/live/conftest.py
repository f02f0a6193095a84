"""A real vLLM with the pocket model, started by `launch/live.sh`, and the same model in this process."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from videopro.backbones import Backbone, load_backbone
from videopro.video import Frame, Video

# A CPU engine on busy cores is slow to start, and its first request compiles.
START_SECONDS = 900.0


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    url: str
    """Of its OpenAI-compatible endpoint, as in http://HOST:PORT/v1."""
    pid_file: Path
    """Holds the leader of its process group. `launch/live.sh` starts an engine that dies again."""

    def post(self, path: str, content: Mapping[str, Any]) -> tuple[int, str]:
        """Status and body of a request."""
        data = json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return int(reply.status), reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def models(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/models", timeout=30) as reply:
            return [card["id"] for card in json.load(reply)["data"]]

    def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a name of its own, unless it is served."""
        if name not in self.models():
            status, said = self.post("/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
            assert status == 200, said

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.models()
                return
            except OSError:
                assert time.monotonic() < end, "the engine was not started again"
                time.sleep(1)


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
    from videopro.pocket import find_video

    return Video.open(find_video(Path("pocket:test/short_000")))


@pytest.fixture(scope="session")
def seen(video: Video, local: Backbone) -> list[Frame]:
    """Sixteen frames over the whole video, as both backbones decode them."""
    return list(video.sample(16, size=local.frame_size(video.height, video.width, 16)))
