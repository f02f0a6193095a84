"""What `--engine ray` refuses before anything is started: one line that names the fix."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.support.fakes import load_fake, make_benchmark
from tests.support.infer_world import flags
from videopro.commands.infer import main


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder, videos=1, questions=1)
    return folder


def refused(root: Path, output: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(flags(root, output, "--engine", "ray", *more), load=load_fake) == 2
    assert not output.exists()
    *_, last = capsys.readouterr().err.splitlines()
    return last


def test_a_dead_address(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    began = time.monotonic()
    said = refused(root, tmp_path / "run", capsys)
    assert said.startswith(f"error: no Ray cluster answers at {address} (nothing listens there); start one")
    assert time.monotonic() - began < 20


def test_an_address_of_a_client(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    assert "RAY_ADDRESS ray://head:10001: a run needs a machine of the cluster" in refused(
        root, tmp_path / "run", capsys
    )


def test_settings_of_this_machine(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "run"
    assert "give --ray workers=3" in refused(root, output, capsys, "--workers", "3")
    assert "it is at most 256 a worker" in refused(root, output, capsys, "--in-flight", "300")
    monkeypatch.setenv("RANK", "0")
    assert "run the command once, without accelerate launch or torchrun" in refused(root, output, capsys)
