"""A cancelled program: its process is killed, and the next one finds everything as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.sandbox_processes import ONE, children_of, zygote_of
from videopro.errors import check_cancelled
from videopro.executor import DEFAULT_LIMITS, Executor


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Executor() as made:
        yield made


PROGRAMS = {
    "it computes": "def execute_command():\n    begin()\n    while True: pass",
    "it sleeps": "def execute_command():\n    import time\n    begin()\n    time.sleep(60)",
    "it waits for a call": "def execute_command():\n    begin()\n    return wait()",
    "it catches everything": (
        "def execute_command():\n    begin()\n    while True:\n        try:\n            wait()\n"
        "        except BaseException: pass"
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_its_process_is_killed(program: str, executor: Executor) -> None:
    assert executor.run(ONE, {}, {}).value == 1
    begun = threading.Event()
    ended = threading.Event()

    def wait() -> None:
        # As a module does between its parts.
        while not ended.wait(0.01):
            check_cancelled()

    functions: dict[str, Callable[[], None]] = {"begin": begun.set, "wait": wait}
    work = CancelledWork(lambda: executor.run(program, functions, {}))
    assert begun.wait(SOON)
    zygote = zygote_of(executor)
    work.cancel()
    # One child waits for the next program.
    until(lambda: len(children_of(zygote)) == 1)
    assert executor.run(ONE, {}, {}).value == 1
    assert zygote_of(executor) == zygote
    assert Path(f"/proc/{zygote}").exists()


def test_a_program_that_waits_for_a_place_is_not_started(executor: Executor) -> None:
    assert executor._zygote is not None
    room = executor._zygote._room
    taken = 0
    while room.acquire(blocking=False):
        taken += 1
    work = CancelledWork(lambda: executor.run(ONE, {}, {}, DEFAULT_LIMITS))
    work.cancel()
    room.release(taken)
    assert executor.run(ONE, {}, {}).value == 1
