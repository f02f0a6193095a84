"""A folder with a program in vLLM's place, the engine that it is, and what is left of its processes."""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import stub_engine
from videopro.engine.serving import EngineProcess, EngineSettings, ServedModel

MODEL = ServedModel("some/model", "model", images=16, rank=20)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def processes(folder: Path) -> list[int]:
    return [start[name] for start in stub_engine.starts(folder) for name in ("pid", "child")]


def names(engine: EngineProcess) -> list[str]:
    with urllib.request.urlopen(f"{engine.url}/models", timeout=10) as reply:
        return [card["id"] for card in json.load(reply)["data"]]


def make(
    folder: Path,
    said: list[str],
    model: ServedModel = MODEL,
    device: str | None = None,
    failure: Path | None = None,
    **settings: Any,
) -> EngineProcess:
    given = EngineSettings(program=str(folder / "vllm"), **settings)
    log = folder / "run" / "engine.log"
    return EngineProcess(given, model, log=log, device=device, say=said.append, failure=failure)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # An engine's start adds its address to them.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "example.org")
    stub_engine.install(tmp_path)
    yield tmp_path
    left = [pid for pid in processes(tmp_path) if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
