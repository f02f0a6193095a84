"""An engine that is killed in the middle of a run, and started again by whoever keeps it running."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.live_engine import START_SECONDS, Engine

pytestmark = pytest.mark.live

LIMIT = 66
# Retries with delays of up to half a minute: together more than a start takes.
PATIENT = ("--backbone", f"retries={int(START_SECONDS / 30) + 6}")


def start(engine: Engine, output: Path, *more: str) -> subprocess.Popen[str]:
    words = ("--benchmark", "pocket", "--split", "test", "--limit", str(LIMIT), "--output", str(output))
    return subprocess.Popen(
        [sys.executable, "-m", "videopro", "infer", *words, "--model", f"server:pocket@{engine.url}", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answered(output: Path) -> int:
    path = output / "traces.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.timeout(2 * START_SECONDS)
def test_a_run_goes_on_or_stops_and_is_resumed(engine: Engine, tmp_path: Path) -> None:
    patient, hasty = tmp_path / "patient", tmp_path / "hasty"
    waits = start(engine, patient, *PATIENT)
    stops = start(engine, hasty, "--backbone", "retries=1")
    try:
        end = time.monotonic() + START_SECONDS
        beginning = {patient: waits, hasty: stops}
        while beginning:
            assert time.monotonic() < end, "no answers"
            for output, process in list(beginning.items()):
                assert process.poll() is None
                if answered(output):
                    # It could be done before the other one has begun.
                    process.send_signal(signal.SIGSTOP)
                    del beginning[output]
            time.sleep(0.05)
        os.killpg(int(engine.pid_file.read_text()), signal.SIGKILL)
        for process in (waits, stops):
            process.send_signal(signal.SIGCONT)
        said, _ = stops.communicate(timeout=START_SECONDS)
        assert stops.returncode == 2, said
        assert "cannot be reached" in said
        assert "re-run the same command to resume" in said
        assert 0 < answered(hasty) < LIMIT
        engine.wait()
        again = start(engine, hasty, "--backbone", "retries=1")
        said, _ = again.communicate(timeout=START_SECONDS)
        assert again.returncode == 0, said
        said, _ = waits.communicate(timeout=START_SECONDS)
        assert waits.returncode == 0, said
    finally:
        for process in (waits, stops):
            process.kill()
    for output in (patient, hasty):
        summary = json.loads((output / "summary.json").read_text())
        assert (summary["questions"], summary["errors"]) == (LIMIT, {})
        ids = [json.loads(line)["question_id"] for line in (output / "traces.jsonl").read_text().splitlines()]
        assert len(ids) == len(set(ids)) == LIMIT
