"""The researcher's road in small, from the official files to the report: bash launch/miniature.sh."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = [pytest.mark.road, pytest.mark.timeout(3000)]


def walk(folder: Path, log: Path) -> str:
    """Run the script, and return what it says. A file takes that, since a pipe would be waited for as long as
    any child holds it."""
    with log.open("w") as said:
        process = subprocess.Popen(
            ["bash", "launch/miniature.sh", str(folder)],
            cwd=ROOT,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = log.read_text(errors="replace")
    assert status == 0, text[-6000:]
    return text


def test_the_road_holds_and_is_resumed(tmp_path: Path) -> None:
    """What each stage has to leave is checked by the script's last command, against what went in."""
    first = walk(tmp_path / "miniature", tmp_path / "first.log")
    assert "everything is as it has to be" in first
    held = [line for line in first.splitlines() if line.startswith("ok    ")]
    for said in ("under DeepSpeed", "EasyOCR", "transcribed", "Table 5"):
        assert any(said in line for line in held), said
    again = walk(tmp_path / "miniature", tmp_path / "again.log")
    stages = [line for line in again.splitlines() if line.startswith("[")]
    stages = [line for line in stages if line.partition("]")[0].strip("[0123456789") == "/"]
    assert stages
    assert all(line.endswith(": already done") for line in stages)
