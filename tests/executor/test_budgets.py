"""Budgets: the breach of each, with the line and what was used, and what a program may still do.
What was breached stays breached, whatever the program catches.
"""

import time
from typing import Any

import pytest

from tests.support.sandbox_runs import RAW, failed, run
from tests.support.sandbox_runs import pool as pool
from videopro.executor import Executor, Limits, use_frames

QUICK = {"cpu_seconds": 0.2, "memory_bytes": 64 << 20}
SMALL = {"memory_bytes": 50 << 20}
EXPLODING = ("x = ['leaf']", "for n in range(30): x = [x, x]")


@pytest.mark.parametrize(
    ("lines", "limits", "kind", "message", "line"),
    [
        (("n = 0", "while True: n += 1"), QUICK, "CpuLimit", "used its 0.2 s of processor time", 3),
        # Inside C, where nothing of the program runs meanwhile.
        (("x = 1", "return sum(range(10 ** 15))"), QUICK, "CpuLimit", "processor time", 3),
        (("import re", "re.match('(a*)*b', 'a' * 64)"), QUICK, "CpuLimit", "processor time", 3),
        # The kernel's time, as of memory that it zeroes, is none of the timer that ends such a program first.
        (
            ("from itertools import repeat", "sum(map(len, map(bytes, repeat(40 << 20))))"),
            QUICK,
            "CpuLimit",
            "processor time",
            3,
        ),
        (
            ("import time", "time.sleep(50)"),
            {"wall_seconds": 0.5},
            "WallLimit",
            "the program took more than 0.5 s, its calls not counted",
            3,
        ),
        (("x = 'a' * 10 ** 9",), SMALL, "MemoryError", "the program may use 50 MiB", 2),
        (
            ("def f(n):", "    return f(n + 1)", "return f(0)"),
            {},
            "RecursionError",
            "maximum recursion depth exceeded",
            3,
        ),
        (("x = []", "x.append(x)", "return x"), {}, "TooLarge", "what execute_command returned", None),
        ((*EXPLODING, "look(x)"), {}, "TooLarge", "look()", 4),
        (("look('x' * 3_000_000)",), {}, "TooLarge", "look()", 2),
        (("look([[0] * 10 for n in range(2000)])",), {}, "TooLarge", "look()", 2),
        (("look(10 ** 400)",), {}, "TooLarge", "look()", 2),
        (("return 1 << 30_000_000",), {}, "TooLarge", "an integer of 30,000,001 bits", None),
        (("raise ValueError(1 << 30_000_000)",), {}, "ValueError", "", 2),
        (("big()",), {}, "TooLarge", "the result of big() cannot be passed: it is nested more than 32", 2),
        (("wide()",), {}, "TooLarge", "it is larger than 4,194,304 bytes", 2),
        (("digits()",), {}, "TooLarge", "the result of digits()", 2),
        (
            ("return {(n,): n for n in range(1001)}",),
            {},
            "TooLarge",
            "it holds more than 1,000 keys or members that are no text or number",
            None,
        ),
        (("send('d', b'9' * 900_000)",), {}, "ProtocolError", "the program meddled with its own", None),
    ],
)
def test_what_is_too_much_fails_with_its_line(
    pool: Executor, lines: tuple[str, ...], limits: dict[str, Any], kind: str, message: str, line: int | None
) -> None:
    looked: list[Any] = []

    def big() -> list[Any]:
        shared: list[Any] = ["leaf"]
        for _ in range(60):
            shared = [shared, shared]
        return shared

    functions: dict[str, Any] = {
        "look": looked.append,
        "big": big,
        "wide": lambda: [["x" * 1000] * 1000] * 1000,
        "digits": lambda: 1 << 30_000_000,
    }
    start = time.process_time()
    outcome = run(
        pool,
        *lines,
        functions=functions,
        head=RAW if "send" in lines[0] else "",
        **{"cpu_seconds": 9, **limits},
    )
    failed(outcome, kind, message, line)
    assert kind == "RecursionError" or lines[-1] in outcome.log or line is None
    assert looked == []
    assert outcome.peak_bytes < 90 << 20
    # The kernel counts in ticks.
    assert kind != "CpuLimit" or 0.15 < outcome.cpu_seconds < 1.5
    assert time.process_time() - start < 10
    if kind in ("MemoryError", "TooLarge") and line is not None:
        caught = (
            "try:",
            *(f"    {text}" for text in lines),
            "except (MemoryError, ValueError): return 'less'",
        )
        assert run(pool, *caught, functions=functions, **limits).value == "less"


# ---- time -------------------------------------------------------------------------------------------------


def test_disarming_the_timers_leaves_the_kernels(pool: Executor) -> None:
    lines = (
        "import enum",
        "s = enum.sys.modules['signal']",
        "for n in (s.SIGPROF, s.SIGVTALRM, s.SIGXCPU): s.signal(n, s.SIG_IGN)",
        "import time",
        "while time.process_time() < {}: pass",
        "return 'quick'",
    )
    endless = [line.format(99) for line in lines]
    outcome = run(pool, *endless, cpu_seconds=0.2)
    failed(outcome, "CpuLimit")
    assert 1.0 < outcome.cpu_seconds < 4.0
    # It can then say what it likes; the kernel has counted.
    for end in (lines[-1], "raise ValueError('quick')"):
        quick = [line.format(0.5) for line in (*lines[:-1], end)]
        failed(run(pool, *quick, cpu_seconds=0.1), "CpuLimit", "more than its 0.1 s of processor time")


def test_the_deadline_moves_with_the_functions_time_alone(pool: Executor) -> None:
    slow = {"work": lambda: time.sleep(0.4)}
    program = "def execute_command():\n    for n in range(4): work()\n    return 1"
    assert pool.run(program, slow, {}, Limits(wall_seconds=0.8)).value == 1
    waits = "import time\ndef execute_command():\n    for n in range(99): work(); time.sleep(0.3)"
    start = time.monotonic()
    failed(pool.run(waits, slow, {}, Limits(wall_seconds=0.8)), "WallLimit")
    assert time.monotonic() - start < 8


# ---- memory, output, source -------------------------------------------------------------------------------


def test_memory_in_small_pieces(pool: Executor) -> None:
    """Whatever the size that it runs out at, and whether or not CPython finds room to note the line."""
    lines = ["kept = []", "while True: kept.append([kept])"]
    for more in range(0, 1 << 20, 1 << 17):
        memory = (24 << 20) + more
        failed(run(pool, *lines, memory_bytes=memory), "MemoryError", line=3)
        outside = "\n".join(["", *lines])
        failed(pool.run(outside, {}, {}, Limits(memory_bytes=memory)), "MemoryError", line=3)


def test_output(pool: Executor) -> None:
    lines = ("try:", "    while True: print('x' * 99)", "except Exception: pass", "return 1")
    outcome = run(pool, *lines, output_bytes=1000)
    failed(outcome, "OutputLimit", "printed more than 1,000 characters", line=3)
    assert outcome.output == ("x" * 99 + "\n") * 10


def test_a_source_beyond_its_bounds_is_not_even_sent(pool: Executor) -> None:
    failed(pool.run("#" * 70_000, {}, {}), "SourceLimit", "the program has 70,000 bytes, more than 65,536")


def test_error_size(pool: Executor) -> None:
    outcome = run(pool, "raise ValueError('x' * 10 ** 6)", error_bytes=500, log_chars=2000)
    failed(outcome, "ValueError", "xxx")
    assert len(outcome.error.message) <= 500
    assert len(outcome.log) <= 2000

    def fail() -> None:
        raise ValueError("y" * 10**6)

    lines = ("try: fail()", "except ValueError as e: return len(str(e))")
    assert run(pool, *lines, functions={"fail": fail}, error_bytes=500).value == 500


# ---- calls and their data ---------------------------------------------------------------------------------


def test_calls_and_output_may_be_used_up(pool: Executor) -> None:
    looked: list[int] = []
    lines = ("print('0')", "for n in range({}):", "    try: look(n)", "    except Exception: pass")
    loop = [lines[0], lines[1].format(7), *lines[2:], "print(n)", "return 'fine'"]
    outcome = run(pool, *loop, functions={"look": looked.append}, calls=7)
    assert (outcome.value, outcome.output) == ("fine", "0\n6\n")
    assert looked == [*range(7)]
    loop = [lines[0], lines[1].format(9), *lines[2:], "return 'fine'"]
    outcome = run(pool, *loop, functions={"look": looked.append}, calls=7)
    failed(outcome, "CallLimit", "the program made more than 7 calls", line=4)
    assert len(outcome.calls) == 7
    assert looked == [*range(7)] * 2


def test_frames(pool: Executor) -> None:
    looked = []

    def look(count: int) -> int:
        use_frames(count)
        looked.append(count)
        return count

    lines = ("for n in (10, 20, 30):", "    try: look(n)", "    except Exception: pass", "return 1")
    outcome = run(pool, *lines, functions={"look": look}, frames=30)
    failed(outcome, "FrameLimit", "looked at more than 30 frames", line=3)
    assert looked == [10, 20]
    use_frames(10**9)  # Outside a program nothing is charged.


@pytest.mark.parametrize(("depth", "fits"), [(31, True), (40, False), (5000, False)])
def test_depth(pool: Executor, depth: int, fits: bool) -> None:
    lines = ("x = []", f"for n in range({depth}): x = [x]", "return look(x) == x")
    outcome = run(pool, *lines, functions={"look": lambda x: x}, depth=32)
    if fits:
        assert outcome.value is True
    else:
        failed(outcome, "TooLarge", "it is nested more than 34 deep", line=4)


def test_a_result_that_does_not_fit_leaks_nothing(pool: Executor) -> None:
    """Handles of a refused result are unknown afterwards, and the same objects can cross later."""
    handle = object()
    results = iter([[handle, "x" * 100_000], [handle]])
    lines = ("try: look()", "except ValueError as e: pass", "return look()")
    outcome = run(pool, *lines, functions={"look": lambda: next(results)}, result_bytes=50_000)
    assert outcome.value == [handle]


def test_ordinary_keys_are_not_bounded(pool: Executor) -> None:
    lines = ("return {n: str(n) for n in range(3000)}, {str(n) for n in range(3000)}",)
    assert run(pool, *lines).value == ({n: str(n) for n in range(3000)}, {str(n) for n in range(3000)})
    lines = ("return {(n, n + 1.5): n for n in range(1000)}",)
    assert run(pool, *lines).value == {(n, n + 1.5): n for n in range(1000)}


# ---- what was breached stays breached ---------------------------------------------------------------------

SWALLOWS = {
    "bare": ("try:", "    {}", "except: pass", "return 1"),
    "suppressed": ("import contextlib", "with contextlib.suppress(BaseException): {}", "return 1"),
    "returned": ("try:", "    {}", "finally: return 1"),
    "another": ("try:", "    {}", "except BaseException: raise ValueError('mine')"),
    "again": ("for n in range(30):", "    try:", "        {}", "    except: pass", "return 1"),
}
BREACHES = {
    "CpuLimit": "sum(iter(int, 1)) if [n for n in iter(lambda: 0, 1)] else 0",
    "OutputLimit": "print('x' * 2000)",
    "CallLimit": "[look() for n in range(9)]",
    "FrameLimit": "[use() for n in range(9)]",
}


@pytest.mark.parametrize("way", SWALLOWS)
@pytest.mark.parametrize("breach", BREACHES)
def test_a_swallowed_breach_is_the_outcome(pool: Executor, breach: str, way: str) -> None:
    lines = tuple(line.format(BREACHES[breach]) for line in SWALLOWS[way])
    limits: dict[str, Any] = {"cpu_seconds": 0.1, "output_bytes": 1000, "calls": 8, "frames": 20}
    outcome = run(pool, *lines, functions={"look": int, "use": lambda: use_frames(3)}, **limits)
    line = next(number for number, text in enumerate(lines, 2) if BREACHES[breach] in text)
    failed(outcome, breach, line=line)
    assert len(outcome.output) <= 1000
