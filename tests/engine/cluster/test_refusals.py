"""What `--engine ray` refuses before anything is started: one line that names the fix."""

import socket
import time
from pathlib import Path

import pytest

from tests.support.colours import flags, load_fake, make_benchmark
from videopro.commands.infer import main


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "RAY_ADDRESS",
            "127.0.0.1:{port}",
            "no Ray cluster responds at 127.0.0.1:{port} (nothing listens there)",
        ),
        (
            "RAY_ADDRESS",
            "ray://head:10001",
            "RAY_ADDRESS ray://head:10001: runs must start on a machine of the cluster",
        ),
        ("RANK", "0", "run the command without accelerate launch or torchrun"),
    ],
)
def test_an_environment_in_which_no_run_can_be_on_ray(
    name: str,
    value: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    make_benchmark(tmp_path / "colours", videos=1, questions=1)
    monkeypatch.setenv(name, value.format(port=port))
    began = time.monotonic()
    assert main(flags(tmp_path / "colours", tmp_path / "run", "--engine", "ray"), load=load_fake) == 2
    assert time.monotonic() - began < 20
    assert not (tmp_path / "run").exists()
    *_, last = capsys.readouterr().err.splitlines()
    assert said.format(port=port) in last
