"""Several commands on one folder: they share the work, take over from one that is killed, and leave the same
bytes as a single one. And the teacher writes while the backbone answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis_runs import datasets, flags, rows, said
from tests.support.synthesis_runs import own_world as own_world
from tests.support.synthesis_runs import root as root
from tests.support.synthesis_runs import stub as stub
from tests.support.synthesis_world import MoodyBackbone, load_moody, teach
from videopro.backbones.base import ChoiceRequest
from videopro.data_synthesis.run import main
from videopro.question import Answer


def start(root: Path, output: Path, stub: StubServer, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.synthesis_world", *flags(root, output, stub, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def slow(body: dict[str, Any]) -> StubFault:
    return StubFault(200, said(teach(text_of(body), body["seed"])), delay=0.1)


def asked(stub: StubServer) -> Counter[tuple[str, int]]:
    return Counter((text_of(body), body["seed"]) for body in stub.chats)


@pytest.mark.kills
def test_two_commands_share_the_work_and_leave_the_bytes_of_one(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    needed = asked(stub)
    stub.seen.clear()
    stub.reply = slow
    commands = [start(root, out, stub, "--videos", "1") for _ in range(2)]
    for command in commands:
        _, error = command.communicate(timeout=300)
        assert command.returncode == 0, error.decode()
    assert datasets(out) == datasets(whole)
    assert (out / "card.json").exists()
    recorded = [row["question_id"] for row in rows(out, "records.jsonl")]
    assert sorted(recorded) == sorted(row["question_id"] for row in rows(whole, "records.jsonl"))
    assert asked(stub) == needed, "every request was sent once"


@pytest.mark.kills
def test_what_a_killed_command_was_at_is_taken_over(root: Path, tmp_path: Path, stub: StubServer) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    stub.seen.clear()
    stub.reply = slow
    replies = out / "work" / "replies.jsonl"
    killed, other = (start(root, out, stub, "--videos", "1", "--concurrency", "1") for _ in range(2))
    deadline = time.monotonic() + 300
    while not (replies.exists() and replies.read_bytes().count(b"\n") >= 6):
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    _, error = other.communicate(timeout=300)
    assert other.returncode == 0, error.decode()
    assert datasets(out) == datasets(whole)
    counted = Counter(row["question_id"] for row in rows(out, "records.jsonl"))
    assert set(counted.values()) == {1}
    assert sum(asked(stub).values()) <= len(replies.read_text().splitlines()) + 1


def test_the_teacher_writes_while_the_backbone_answers(root: Path, tmp_path: Path, stub: StubServer) -> None:
    arrived = threading.Event()

    def arriving(body: dict[str, Any]) -> dict[str, Any]:
        arrived.set()
        return said(teach(text_of(body), body["seed"]))

    class Waiting(MoodyBackbone):
        def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
            # The first call answers natively; by then the teacher has been asked.
            assert arrived.wait(60)
            return super().answer_batch(requests)

    stub.reply = arriving
    out = tmp_path / "out"
    assert main(flags(root, out, stub, "--videos", "1"), load=Waiting) == 0
    assert len(rows(out, "records.jsonl")) == 9
