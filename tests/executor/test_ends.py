"""Every end of a program is an outcome, promptly, and the right one: whatever signal it dies by, whatever it
sends, however many small messages. Programs that meddle with their own process reach its socket, as real ones
would; the host continues.
"""

import os
import signal
import threading
import time
from typing import Any

import pytest

from tests.support.sandbox_runs import RAW, children_of, failed, run, zygote_of
from tests.support.sandbox_runs import pool as pool
from videopro.errors import signal_name
from videopro.executor import Executor, Limits

# ---- signals and statuses ---------------------------------------------------------------------------------


def ended_by(executor: Executor, number: int) -> tuple[str, str]:
    """The error of a program whose process gets a signal."""

    def end() -> None:
        os.kill(children_of(zygote_of(executor).pid)[0], number)
        time.sleep(0.02)

    program = "def execute_command():\n    end()\n    while True: pass"
    outcome = executor.run(program, {"end": end}, {}, Limits(cpu_seconds=0.2, wall_seconds=3.0))
    assert outcome.status == "failed"
    return outcome.error.type, outcome.error.message


# Without those that stop a process or are ignored by default: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
@pytest.mark.parametrize("number", [n for n in range(1, 65) if n not in (17, 18, 19, 20, 21, 22, 23, 28)])
def test_every_signal_is_explained(pool: Executor, number: int) -> None:
    kind, message = ended_by(pool, number)
    known = {entry.value: entry.name for entry in signal.Signals}
    beyond = f"SIGRTMIN+{number - 34}" if number > 34 else f"signal {number}"
    assert signal_name(number) == known.get(number, beyond)
    if number == signal.SIGPROF:  # That of the sandbox's first timer, seen during the host's call.
        assert kind == "CpuLimit"
    elif number not in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # Python handles or ignores these.
        assert kind == "Crashed"
        assert known.get(number, str(number - 34 if number > 34 else number)) in message


def test_a_signal_that_the_host_ignores_ends_a_program_all_the_same() -> None:
    """As under nohup, or in the background of a shell."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with Executor() as own:
            kind, message = ended_by(own, signal.SIGQUIT)
    finally:
        signal.signal(signal.SIGQUIT, before)
    assert (kind, "SIGQUIT" in message) == ("Crashed", True)


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        # It may queue none of the real-time signals: others could read their number. The C library reserves
        # 32 and 33.
        *((f"m['signal'].raise_signal({number})", "OSError", "") for number in (32, 33)),
        *((f"m['signal'].raise_signal({number})", "BlockingIOError", "") for number in (34, 35, 40, 63, 64)),
        *(
            (f"m['signal'].raise_signal({number})", "Crashed", signal.Signals(number).name)
            for number in (11, 26, 24, 9, 31)
        ),
        ("m['signal'].raise_signal(19)", "WallLimit", ""),  # It stops itself.
        *(
            (f"os._exit({status})", "Crashed", f"the program ended its own process with status {status}")
            for status in (0, 1, 7, 127, 128, 137, 255)
        ),
        ("os.abort()", "Crashed", "ended by SIGABRT"),
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("os.write(3, b'Fatal nonsense'); os._exit(0)", "ProtocolError", ""),
        ("os.write(3, b'Stack'); os._exit(0)", "ProtocolError", ""),
        ("os.write(3, b'd\\0\\0'); os._exit(0)", "Crashed", ""),
    ],
)
def test_an_end_of_its_own_is_reported(pool: Executor, line: str, kind: str, message: str) -> None:
    outcome = run(pool, "look()", line, functions={"look": lambda: 1}, head=RAW, wall_seconds=1.0)
    if "write" in line:  # What counts depends on whether the end of the process is seen first.
        kind = outcome.error.type if outcome.error.type in ("ProtocolError", "Crashed") else kind
    failed(outcome, kind, message)
    if kind not in ("Crashed", "ProtocolError", "WallLimit"):
        assert outcome.error.line == RAW.count("\n") + 3
    assert len(outcome.calls) == 1


def test_a_dying_process_may_take_its_time(pool: Executor) -> None:
    """On a busy machine, seconds pass between two lines of its dump."""
    line = "time.sleep(1.5); os.write(3, b'  File \"<program>\", line 7 in f\\n'); os._exit(1)"
    lines = ("import time", "os.write(3, b'Stack (most recent call first):\\n')", line)
    failed(run(pool, *lines, head=RAW), "Crashed", line=7)


# ---- a process that does not keep to the protocol ---------------------------------------------------------

BIG = "big = json.dumps(['look', {'t': [{'t': ['x' * 990_000]}, {'d': []}]}, 1]).encode()"


@pytest.mark.parametrize(
    ("lines", "limits", "kinds"),
    [
        *(
            ((f"data = {data} * {many}", "while True: os.write(3, data)"), {}, "ProtocolError WallLimit")
            for data in ("frame('o', b'\"\"')", "frame('o', b'')", "frame('y', b'null')")
            for many in (1, 1000)
        ),
        (("send('o', json.dumps('x' * 50_000).encode())",) * 2, {}, "OutputLimit"),
        # After the order to stop.
        (
            (*["call('look', EMPTY, 1)"] * 2, "while True: os.write(3, frame('o', b'\"\"'))"),
            {"calls": 1, "wall_seconds": 60.0},
            "CallLimit",
        ),
        # Each call brings a megabyte that the host must take apart: waiting is the least of it.
        ((BIG, "while True: send('c', big); got = os.read(3, 1 << 20)"), {"calls": 10**6}, "WallLimit"),
        # Single bytes of a message, with time between them.
        (
            (
                "import time; os.write(3, b'd' + bytes([0, 0, 4, 0]))",
                "while True: os.write(3, b'x'); time.sleep(0.1)",
            ),
            {},
            "WallLimit",
        ),
        # It asks for results of megabytes and leaves them lying: the host's sending has a deadline.
        (("for n in range(40): call('much', EMPTY, 1)", "while True: pass"), {"calls": 60}, "WallLimit"),
    ],
)
def test_a_flood_ends_by_its_time(
    pool: Executor, lines: tuple[str, ...], limits: dict[str, Any], kinds: str
) -> None:
    start, used = time.monotonic(), time.process_time()
    functions = {"look": lambda *a: 1, "much": lambda: "x" * 3_000_000}
    outcome = run(
        pool, *lines, functions=functions, head=RAW, **{"wall_seconds": 0.5, "cpu_seconds": 60.0, **limits}
    )
    assert outcome.error.type in kinds.split(), outcome
    assert len(outcome.calls) < 40 or "look" in outcome.calls[0]
    assert len(outcome.output) <= 64 << 10
    assert time.monotonic() - start < 6
    assert time.process_time() - used < 3


def test_a_last_word_after_the_last_word(pool: Executor) -> None:
    """A result counts; what the process does then, or that it stays, does not matter."""
    start = time.monotonic()
    outcome = run(pool, "send('d', b'5')", "while True: os.write(3, b'x' * 1000)", head=RAW, cpu_seconds=9.0)
    assert (outcome.status, outcome.value) == ("ok", 5)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "packed",
    [
        "{'z': [n * P for n in range(9990)]}",
        "{'d': [[n * P, 0] for n in range(4990)]}",
        "{'s': [{'z': [n]} for n in range(4990)]}",
    ],
)
def test_colliding_keys_cost_nothing(pool: Executor, packed: str) -> None:
    """Multiples of 2**61 - 1 all have the hash 0: a dict of many takes quadratic time."""

    def cost() -> float:
        used = time.process_time()
        lines = ("P = 2 ** 61 - 1", f"send('d', json.dumps({packed}).encode())", "os.read(3, 1)")
        failed(run(pool, *lines, head=RAW, cpu_seconds=20.0), "ProtocolError", "more than 1,000 keys")
        return time.process_time() - used

    # The least of three: a busy neighbour slows some of them down.
    assert min(cost() for _ in range(3)) < 0.3


def test_an_outcome_that_is_known_survives_the_zygote() -> None:
    with Executor() as executor:
        zygote = zygote_of(executor)
        killer = threading.Timer(0.4, os.kill, (zygote.pid, signal.SIGKILL))
        # It has sent its last message, and the process stays until the zygote dies with it.
        lines = "    look()\n    send('d', b'5')\n    while True: os.read(3, 9)"
        outcome = executor.run(f"{RAW}\ndef execute_command():\n{lines}", {"look": killer.start}, {})
        assert (outcome.status, outcome.value) == ("ok", 5)
        assert executor._zygote is not zygote
