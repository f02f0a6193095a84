"""The queue of a run: crash records, leases that workers of several ranks share, shards, and walks over
things that other processes are at too."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.colours import check_complete, finish, lines, start, wait_for
from tests.support.colours import root as root
from videopro.engine import Walk, read_crashes, shard
from videopro.engine import queue as walk
from videopro.errors import ConfigError


def test_a_torn_or_invalid_crash_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "deaths.jsonl"
    path.write_text('[1]\n{"ids": 3, "reason": "x"}\n{"ids": ["q"], "reason": "why"}\n{"ids": ["q"]}\n{"id')
    assert read_crashes(path).alone == {"q": 1}


@pytest.mark.kills
def test_ranks_share_a_run_and_one_may_die(root: Path, tmp_path: Path) -> None:
    """As accelerate launch starts them: two ranks, one killed, the other continues with its questions."""
    output = tmp_path / "run"

    def rank(number: int) -> subprocess.Popen[str]:
        own = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        return start(root, output, "--backbone", "delay=0.15", **own)

    ranks = [rank(0), rank(1)]
    wait_for(lambda: lines(output) > 1)
    os.kill(ranks[1].pid, signal.SIGKILL)
    ranks[1].communicate(timeout=60)
    text = finish(ranks[0])
    assert all(trace.error is None for trace in check_complete(output))
    assert "run folder" in text
    assert "run folder" not in finish(rank(1)), "only rank 0 reports"
    check_complete(output)


def test_alone_it_keeps_the_order() -> None:
    given = Walk(["a", "b", "c"])
    assert [given.take() for _ in range(4)] == ["a", "b", "c", None]


def test_what_another_is_at_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "POLL_SECONDS", 0.01)
    given = Walk(list(range(50)))
    first = given.take()
    assert first == 0
    given.put_off(0)
    rest = [given.take() for _ in range(49)]
    assert sorted(rest, key=str) == sorted(range(1, 50), key=str)
    assert rest != list(range(1, 50)), "after a meeting, an order of its own"
    assert given.take() == 0
    given.put_off(0)
    assert given.take() == 0
    assert given.take() is None


def test_a_waiting_thread_can_be_stopped() -> None:
    given = Walk(["a"])
    assert given.take() == "a"
    given.put_off("a")
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(given.take()))
    given.stop()
    thread.start()
    thread.join(5)
    assert found == [None]
    assert given.is_stopped


def test_shards_share_nothing_and_leave_nothing_out() -> None:
    names = [f"{i}.mp4" for i in range(23)]
    for count in (1, 2, 5, 23, 40):
        parts = [shard(names, f"{i}/{count}") for i in range(1, count + 1)]
        assert sorted(name for part in parts for name in part) == sorted(names)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for wrong in ("0/2", "3/2", "1", "1/", "a/2", "1/0", "-1/2", "1/2/3"):
        with pytest.raises(ConfigError, match=r"write i/n"):
            shard(names, wrong)
