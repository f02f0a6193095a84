"""A small benchmark, runs over it as on the command line, and what they leave, for tests of runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.fakes import make_benchmark
from videopro.traces import Trace


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos with three questions each; the third question of each has a wrong gold answer."""
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder)
    return folder


def flags(root: Path, output: Path, *more: str) -> list[str]:
    return ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output), *more]


def start(root: Path, output: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.fakes", *flags(root, output, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    out, err = process.communicate(timeout=180)
    assert process.returncode == status, out + err
    return out + err


def lines(output: Path) -> int:
    try:
        return (output / "traces.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for(condition: object, seconds: float = 120.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def check_complete(output: Path, questions: int = 12) -> list[Trace]:
    """Every question is there exactly once, each line whole."""
    raw = (output / "traces.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    traces = [Trace.from_line(line) for line in raw.splitlines()]
    counts = Counter(trace.question_id for trace in traces)
    assert len(counts) == questions
    assert set(counts.values()) == {1}
    return traces


def rewrite(root: Path, question_id: str, text: str) -> None:
    """Give one question another text."""
    records = [json.loads(line) for line in (root / "questions.jsonl").read_text().splitlines()]
    for record in records:
        if record["id"] == question_id:
            record["question"] = text
    (root / "questions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


SRT = """1
00:00:00,100 --> 00:00:00,300
<i>said early</i>

2
00:00:00,900 --> 00:00:01,100
said in the middle
"""
