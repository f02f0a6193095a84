"""Every end of a program is an outcome, promptly, and the right one: whatever signal it dies by, however many
small messages it sends, whatever it catches.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.sandbox_runs import RAW, failed, run
from videopro.errors import signal_name
from videopro.executor import Executor, Limits, Outcome, use_frames
from videopro.executor.conversation import Conversation
from videopro.runs.making import Supervisor
from videopro.runs.making.supervisor import Placement


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor() as made:
        yield made


def child_of(executor: Executor) -> int:
    """The process of the only program that runs."""
    zygote = executor._zygote
    assert zygote is not None
    return int(Path(f"/proc/{zygote.pid}/task/{zygote.pid}/children").read_text().split()[0])


# ---- how programs end -------------------------------------------------------------------------------------


# Without those that stop a process or are ignored by default: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
@pytest.mark.parametrize("number", [n for n in range(1, 65) if n not in (17, 18, 19, 20, 21, 22, 23, 28)])
def test_every_signal_is_explained(pool: Executor, number: int) -> None:
    def end() -> None:
        os.kill(child_of(pool), number)
        time.sleep(0.02)

    program = "def execute_command():\n    end()\n    while True: pass"
    outcome = pool.run(program, {"end": end}, {}, Limits(cpu_seconds=0.4, wall_seconds=3.0))
    assert outcome.status == "failed"
    assert outcome.error is not None
    if number == signal.SIGPROF:  # That of the sandbox's first timer, seen during the host's call.
        assert outcome.error.type == "CpuLimit"
    elif number not in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # Python handles or ignores these.
        assert outcome.error.type == "Crashed", outcome
        names = {entry.value: entry.name for entry in signal.Signals}
        assert names.get(number, str(number - 34 if number > 34 else number)) in outcome.error.message


def test_a_signal_that_the_host_ignores_ends_a_program_all_the_same() -> None:
    """As under nohup, or in the background of a shell."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with Executor() as own:
            program = "def execute_command():\n    end()\n    while True: pass"
            quits = {"end": lambda: os.kill(child_of(own), signal.SIGQUIT)}
            outcome = own.run(program, quits, {}, Limits(cpu_seconds=0.4, wall_seconds=3.0))
    finally:
        signal.signal(signal.SIGQUIT, before)
    assert outcome.error is not None
    assert (outcome.error.type, "SIGQUIT" in outcome.error.message) == ("Crashed", True)


@pytest.mark.parametrize("number", [32, 33, 34, 35, 40, 63, 64])
def test_a_program_that_raises_a_real_time_signal_is_reported(pool: Executor, number: int) -> None:
    """It may queue none: others could read their number. The C library reserves 32 and 33."""
    line = f"__import__('enum').sys.modules['signal'].raise_signal({number})"
    failed(run(pool, line, "return 'survived'"), "OSError" if number < 34 else "BlockingIOError", line=2)


@pytest.mark.parametrize("number", [11, 19, 26, 24, 9, 31])
def test_a_program_that_raises_a_signal_ends(pool: Executor, number: int) -> None:
    line = f"__import__('enum').sys.modules['signal'].raise_signal({number})"
    outcome = run(pool, line, "return 'survived'", wall_seconds=1.0)
    # A process that stops itself (19) is ended by the wall clock; 26 and 24 are those that time ends with.
    failed(
        outcome,
        "WallLimit" if number == 19 else "Crashed",
        "" if number == 19 else signal.Signals(number).name,
    )


def test_every_exit_status_is_reported(pool: Executor) -> None:
    for status in range(256):
        program = f"import random\n\ndef execute_command():\n    random._os._exit({status})"
        outcome = pool.run(program, {}, {})
        failed(outcome, "Crashed", f"the program ended its own process with status {status}")


@pytest.mark.parametrize("number", range(1, 65))
def test_a_signal_has_a_name(number: int) -> None:
    known = {entry.value: entry.name for entry in signal.Signals}
    beyond = f"SIGRTMIN+{number - 34}" if number > 34 else f"signal {number}"
    assert signal_name(number) == known.get(number, beyond)


def test_a_worker_that_dies_by_a_real_time_signal_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    class Process:
        exitcode = -40

    class Worker:
        process, ready, answering, index = Process(), True, (), 3

    supervisor: Any = Supervisor(Placement(1, 1), lambda: None, ("native", {}))
    supervisor._job = object()
    supervisor._died(Worker())
    assert "worker 3 died (killed by signal 40 (SIGRTMIN+6))" in capsys.readouterr().err


def test_only_one_place_looks_up_signal_names() -> None:
    named = [
        path.name
        for folder in ("videopro", "modules", "train", "data_synthesis", "perf")
        for path in (ROOT / folder).rglob("*.py")
        if "signal.Signals(" in path.read_text(encoding="utf-8")
    ]
    assert named == ["exceptions.py"]


# ---- one deadline -----------------------------------------------------------------------------------------

FLOODS = {
    "empty output": "data = b'o' + bytes([0, 0, 0, 2]) + b'\"\"'",
    "output of nothing": "data = b'o' + bytes(4)",
    "output by the letter": "data = b'o' + bytes([0, 0, 0, 3]) + b'\"x\"'",
    "beginnings": "data = b'y' + bytes([0, 0, 0, 4]) + b'null'",
    "single bytes of a message": "os.write(3, b'c' + bytes([0, 9, 0, 0])); data = b'x'",
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("many", [1, 1000])
def test_a_flood_of_small_messages_ends_by_its_time(pool: Executor, name: str, many: int) -> None:
    start, used = time.monotonic(), time.process_time()
    lines = (FLOODS[name], f"data *= {many}", "while True: os.write(3, data)")
    outcome = run(pool, *lines, head=RAW, wall_seconds=1.0, cpu_seconds=60.0)
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert outcome.error.type in ("ProtocolError", "WallLimit"), outcome
    assert time.monotonic() - start < 6
    assert time.process_time() - used < 3


@pytest.mark.parametrize("breach", ["calls", "output"])
def test_a_flood_after_the_order_to_stop(pool: Executor, breach: str) -> None:
    start = time.monotonic()
    first = "call('look', EMPTY, 1)" if breach == "calls" else "send('o', json.dumps('x' * 70_000).encode())"
    lines = (first, first, "while True: os.write(3, b'o' + bytes([0, 0, 0, 2]) + b'\"\"')")
    outcome = run(pool, *lines, head=RAW, functions={"look": int}, calls=1, cpu_seconds=60.0)
    failed(outcome, "CallLimit" if breach == "calls" else "OutputLimit")
    assert time.monotonic() - start < 6


def test_a_program_that_calls_and_prints_as_much_as_it_may(pool: Executor) -> None:
    lines = ("print('0')", "for n in range(40):", "    look()", "    print(n + 1)", "return 'fine'")
    outcome = run(pool, *lines, functions={"look": int}, calls=40)
    assert outcome.value == "fine"
    assert outcome.output.split() == [str(n) for n in range(41)]


def test_reading_counts_against_the_deadline(pool: Executor) -> None:
    """Each call brings a megabyte of numbers that the host must take apart: waiting is the least of it."""
    lines = (
        "big = json.dumps(['look', {'t': [{'t': ['x' * 990_000]}, {'d': []}]}, 1]).encode()",
        "while True: send('c', big); got = os.read(3, 1 << 20)",
    )
    start = time.monotonic()
    outcome = run(pool, *lines, head=RAW, functions={"look": lambda x: 1}, wall_seconds=0.5, calls=10**6)
    failed(outcome, "WallLimit")
    assert time.monotonic() - start < 5


def test_the_deadline_moves_with_the_functions_time_alone(pool: Executor) -> None:
    slow = {"work": lambda: time.sleep(0.4)}
    program = "def execute_command():\n    for n in range(4): work()\n    return 1"
    assert pool.run(program, slow, {}, Limits(wall_seconds=0.8)).value == 1
    waits = "import time\ndef execute_command():\n    for n in range(99): work(); time.sleep(0.3)"
    start = time.monotonic()
    failed(pool.run(waits, slow, {}, Limits(wall_seconds=0.8)), "WallLimit")
    assert time.monotonic() - start < 8


# ---- keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packed",
    [
        "{'s': [n * P for n in range(9990)]}",
        "{'z': [n * P for n in range(9990)]}",
        "{'d': [[n * P, 0] for n in range(4990)]}",
        "{'s': [{'t': [n * P]} for n in range(4990)]}",
        "{'s': [{'z': [n]} for n in range(4990)]}",
        "{'t': [{'s': [m * 900 + n * P for n in range(900)]} for m in range(9)]}",
    ],
)
def test_colliding_keys_cost_nothing(pool: Executor, packed: str) -> None:
    def cost() -> float:
        used = time.process_time()
        lines = ("P = 2 ** 61 - 1", f"send('d', json.dumps({packed}).encode())", "os.read(3, 1)")
        failed(run(pool, *lines, head=RAW, cpu_seconds=20.0), "ProtocolError", "more than 1,000 keys")
        return time.process_time() - used

    # The least of three: a busy neighbour slows some of them down.
    assert min(cost() for _ in range(3)) < 0.3


def test_ordinary_keys_are_not_bounded(pool: Executor) -> None:
    lines = ("return {n: str(n) for n in range(3000)}, {str(n) for n in range(3000)}",)
    assert run(pool, *lines).value == ({n: str(n) for n in range(3000)}, {str(n) for n in range(3000)})
    lines = ("return {(n, n + 1.5): n for n in range(1000)}",)
    assert run(pool, *lines).value == {(n, n + 1.5): n for n in range(1000)}
    lines = ("return {(n,): n for n in range(1001)}",)
    failed(
        run(pool, *lines), "TooLarge", "it holds more than 1,000 keys or members that are no text or number"
    )


# ---- what was breached stays breached ---------------------------------------------------------------------

SWALLOWS = {
    "bare": ("try:", "    {}", "except: pass", "return 1"),
    "suppressed": ("import contextlib", "with contextlib.suppress(BaseException): {}", "return 1"),
    "returned": ("try:", "    {}", "finally: return 1"),
    "another": ("try:", "    {}", "except BaseException: raise ValueError('mine')"),
    "again": ("for n in range(3):", "    try:", "        {}", "    except: pass", "return 1"),
}
BREACHES = {
    "CpuLimit": "sum(iter(int, 1)) if [n for n in iter(lambda: 0, 1)] else 0",
    "OutputLimit": "print('x' * 2000)",
    "CallLimit": "[look() for n in range(9)]",
    "FrameLimit": "[use() for n in range(9)]",
}


def functions() -> dict[str, Any]:
    return {"look": int, "use": lambda: use_frames(3)}


@pytest.mark.parametrize("way", SWALLOWS)
@pytest.mark.parametrize("breach", BREACHES)
def test_a_swallowed_breach_is_the_outcome(pool: Executor, breach: str, way: str) -> None:
    lines = tuple(line.format(BREACHES[breach]) for line in SWALLOWS[way])
    limits = {"cpu_seconds": 0.1, "output_bytes": 1000, "calls": 8, "frames": 20}
    outcome = run(pool, *lines, functions=functions(), **limits)
    line = next(number for number, text in enumerate(lines, 2) if BREACHES[breach] in text)
    failed(outcome, breach, line=line)
    assert outcome.value is None
    assert len(outcome.output) <= 1000


def test_a_process_that_hides_its_time_is_detected(pool: Executor) -> None:
    """Without its timers a program can say what it likes; the kernel has counted."""
    lines = (
        "import enum",
        "s = enum.sys.modules['signal']",
        "for n in (s.SIGPROF, s.SIGVTALRM): s.signal(n, s.SIG_IGN)",
        "import time",
        "while time.process_time() < 0.8: pass",
        "return 'quick'",
    )
    failed(run(pool, *lines, cpu_seconds=0.1), "CpuLimit", "more than its 0.1 s of processor time")


def test_a_function_that_swallows_the_limit_of_frames_does_not_help(pool: Executor) -> None:
    def careless(fail: bool) -> str:
        try:
            use_frames(100)
        except Exception:
            if fail:
                raise ValueError("something went wrong") from None
        return "fine"

    for fail in (True, False):
        outcome = run(pool, f"return careless({fail})", functions={"careless": careless}, frames=10)
        failed(outcome, "FrameLimit", "more than 10 frames")


# ---- what ends the run of the host itself -----------------------------------------------------------------


class Fatal(Exception):
    pass


@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit, Fatal, GeneratorExit])
def test_what_a_function_raises_is_not_lost_with_the_zygote(what: type[BaseException]) -> None:
    with Executor() as executor:
        times = []

        def stop() -> None:
            times.append(1)
            assert executor._zygote is not None
            os.kill(executor._zygote.pid, signal.SIGKILL)
            time.sleep(0.1)
            raise what("stop")

        with pytest.raises(what, match="stop"):
            executor.run("def execute_command():\n    stop()", {"stop": stop}, {}, fatal=(Fatal,))
        assert times == [1]
        assert executor.run("def execute_command():\n    return 1", {}, {}).value == 1


def test_an_interrupted_call_is_on_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Conversation] = []
    run_program = Conversation.run_program
    monkeypatch.setattr(
        Conversation, "run_program", lambda self, *a: made.append(self) or run_program(self, *a)
    )
    with Executor() as executor:

        def stop() -> None:
            raise KeyboardInterrupt("now")

        with pytest.raises(KeyboardInterrupt):
            executor.run("def execute_command():\n    stop()", {"stop": stop}, {})
    assert made[-1].calls == ["line 2: stop() raised KeyboardInterrupt: now"]


def test_an_outcome_that_is_known_survives_the_zygote() -> None:
    with Executor() as executor:
        zygote = executor._zygote
        assert zygote is not None
        killer = threading.Timer(0.7, os.kill, (zygote.pid, signal.SIGKILL))

        def look() -> int:
            killer.start()
            return 1

        # It has sent its last message, and the process stays until the zygote dies with it.
        program = (
            f"{RAW}\ndef execute_command():\n    look()\n    send('d', b'5')\n    while True: os.read(3, 9)"
        )
        outcome: Outcome = executor.run(program, {"look": look}, {})
        assert (outcome.status, outcome.value) == ("ok", 5)
        assert executor._zygote is not zygote
        json.dumps(vars(outcome), default=str)
