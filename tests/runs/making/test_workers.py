"""Workers of a run: killed, interrupted or changed in number, they lose nothing; which devices they get."""

import json
import os
import pty
import select
import signal
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from tests.support.colours import check_complete, finish, flags, lines, start, wait_for
from tests.support.colours import root as root
from videopro.runs.making import place_workers
from videopro.runs.making.supervisor import _Channel


def children(pid: int) -> list[int]:
    """Worker processes of a supervisor."""
    own = (each for each in psutil.process_iter(["ppid", "cmdline"]) if each.info["ppid"] == pid)
    return [each.pid for each in own if "spawn_main" in " ".join(each.info["cmdline"] or ())]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.kills
def test_kill_everything_and_resume_with_other_workers(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for workers, until in (("1", 2), ("3", 5)):
        process = start(root, output, "--workers", workers, "--backbone", "delay=0.15")
        wait_for(lambda until=until: lines(output) >= until)
        pids = children(process.pid)
        assert len(pids) == int(workers)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        wait_for(lambda pids=pids: not any(alive(pid) for pid in pids), 60)
        assert not (output / "summary.json").exists()
        with (output / "traces.jsonl").open("ab") as file:
            file.write(b'{"schema": 1, "run_k')
    text = finish(start(root, output, "--workers", "2", "--backbone", "delay=0.1"))
    assert "removed an incomplete line" in text
    assert all(trace.error is None for trace in check_complete(output))
    assert json.loads((output / "summary.json").read_text())["n"] == 12


@pytest.mark.kills
@pytest.mark.parametrize(
    ("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGTERM, False)]
)
def test_a_signal_ends_a_run_and_leaves_no_worker(
    root: Path, tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    """As a terminal, a service manager or a scheduler sends it: to the command, or to its workers as well."""
    output = tmp_path / "run"
    process = start(root, output, "--workers", "2", "--backbone", "delay=0.1")
    wait_for(lambda: lines(output) > 0)
    pids = children(process.pid)
    assert len(pids) == 2
    (os.killpg if whole_group else os.kill)(process.pid, number)
    text = finish(process, status=128 + number)
    assert text.endswith("stopped; re-run the same command to resume\n")
    assert "Traceback" not in text
    assert "died" not in text
    assert not any(alive(pid) for pid in pids)
    assert not (output / "work" / "deaths.jsonl").exists()
    if number == signal.SIGTERM and whole_group:
        finish(start(root, output, "--workers", "2"))
        check_complete(output)


@pytest.mark.kills
def test_a_signal_while_the_model_loads(root: Path, tmp_path: Path) -> None:
    process = start(root, tmp_path / "run")
    wait_for(lambda: children(process.pid))
    os.killpg(process.pid, signal.SIGTERM)
    text = finish(process, status=143)
    assert text.endswith("stopped; re-run the same command to resume\n")
    assert "Traceback" not in text
    assert not (tmp_path / "run").exists()


@pytest.mark.kills
def test_a_terminal_that_is_closed_ends_the_run(root: Path, tmp_path: Path) -> None:
    """SIGHUP, and nothing can be printed anymore."""
    output = tmp_path / "run"
    command = [sys.executable, "-m", "tests.support.colours", *flags(root, output, "--backbone", "delay=0.1")]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    end = time.monotonic() + 120
    while lines(output) == 0:
        assert time.monotonic() < end
        if select.select([terminal], [], [], 0.01)[0]:
            os.read(terminal, 65536)
    workers = children(pid)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    assert not any(alive(worker) for worker in workers)


@pytest.mark.kills
def test_nohup_is_respected(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(root, output, "--backbone", "delay=0.05", launcher=["nohup"])
    wait_for(lambda: lines(output) > 0)
    os.killpg(process.pid, signal.SIGHUP)
    finish(process)
    check_complete(output)


def test_placement() -> None:
    """Each rank its device, several workers the devices in turn, one worker all of them; cores divided."""
    variables = {"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}
    rank = place_workers(2, variables)
    assert rank.rank == 5
    own = {"OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "1"}
    assert [rank.environment(i) for i in (0, 1)] == [own, own]
    assert place_workers(1, {**variables, "CUDA_VISIBLE_DEVICES": "4,6"}).devices == ("6",)
    several = place_workers(3, {"CUDA_VISIBLE_DEVICES": "4,6"})
    assert [several.environment(i)["CUDA_VISIBLE_DEVICES"] for i in range(3)] == ["4", "6", "4"]
    assert place_workers(1, {"CUDA_VISIBLE_DEVICES": "4,6"}).devices == ()
    cores = len(os.sched_getaffinity(0))
    assert place_workers(1, {}).threads == cores
    assert place_workers(cores, {"CUDA_VISIBLE_DEVICES": "0"}).threads == 1


def test_long_reports_of_several_threads_arrive_whole() -> None:
    """A message of more than 16 KiB is written to the channel in two parts."""
    here, there = Pipe()
    channel = _Channel.__new__(_Channel)
    channel._channel, channel._sending = there, threading.Lock()
    reports = [[f"question-{n}-{k}" for k in range(2000)] for n in range(4)]

    def report(ids: list[str]) -> None:
        for _ in range(60):
            channel.answering(ids)

    threads = [threading.Thread(target=report, args=(ids,), daemon=True) for ids in reports]
    for thread in threads:
        thread.start()
    received = [here.recv() for _ in range(240) if here.poll(20)]
    assert len(received) == 240
    for ids in reports:
        assert received.count(("answering", ids)) == 60
