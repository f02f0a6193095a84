"""Budgets, and the known weaknesses of sandboxes of this kind: each has a test here.

Programs that meddle with their own process reach `os` through `random._os`, as a real one would: whatever
they send or do, the host promptly returns an ordinary failed Outcome, and continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program_bombs import BOMBS
from tests.support.sandbox_runs import RAW, failed, run
from videopro.executor import Executor, Limits, conversation, use_frames

# ---- time -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor() as made:
        yield made


def test_a_loop_ends_with_its_line(pool: Executor) -> None:
    outcome = run(pool, "n = 0", "while True:", "    n += 1", cpu_seconds=0.2)
    failed(outcome, "CpuLimit", "the program used its 0.2 s of processor time")
    assert outcome.error is not None
    assert outcome.error.line in (3, 4)
    assert 0.15 < outcome.cpu_seconds < 1.0  # The kernel counts in ticks.


@pytest.mark.parametrize(
    "line",
    [
        "return sum(range(10 ** 15))",
        "return '%d' % (3 ** 3 ** 3 ** 3)",
        "import re; return re.match('(a*)*b', 'a' * 64)",
        "return max(iter(int, 1))",
        "return 0 in __import__('itertools').repeat(1)",
    ],
)
def test_time_ends_inside_c_with_the_line(pool: Executor, line: str) -> None:
    outcome = run(pool, "x = 1", line, cpu_seconds=0.2, memory_bytes=64 << 20)
    if outcome.error is not None and outcome.error.type == "MemoryError":
        pytest.fail("the program ran out of memory first: it tests nothing")
    failed(outcome, "CpuLimit", "processor time", line=3)
    assert line in outcome.log


def test_swallowing_the_end_of_time_does_not_help(pool: Executor) -> None:
    lines = ("while True:", "    try:", "        while True: pass", "    except BaseException: pass")
    outcome = run(pool, *lines, cpu_seconds=0.2)
    failed(outcome, "CpuLimit")
    assert outcome.error is not None
    assert outcome.error.line in (2, 3, 4, 5)
    assert outcome.cpu_seconds < 1.5


def test_disarming_the_timers_leaves_the_kernels(pool: Executor) -> None:
    lines = (
        "import enum",
        "signal = enum.sys.modules['signal']",
        "for n in (signal.SIGPROF, signal.SIGVTALRM, signal.SIGXCPU):",
        "    signal.signal(n, signal.SIG_IGN)",
        "while True: pass",
    )
    outcome = run(pool, *lines, cpu_seconds=0.2)
    failed(outcome, "CpuLimit")
    assert 1.0 < outcome.cpu_seconds < 4.0


def test_a_wait_ends_with_its_line(pool: Executor) -> None:
    start = time.monotonic()
    outcome = run(pool, "import time", "time.sleep(50)", wall_seconds=1.0)
    failed(outcome, "WallLimit", "the program took more than 1 s, its calls not counted", line=3)
    assert time.monotonic() - start < 20


def test_the_hosts_time_does_not_count(pool: Executor) -> None:
    functions = {"work": lambda: time.sleep(0.7)}
    outcome = run(pool, "work()", "work()", "return 1", functions=functions, wall_seconds=1.2)
    assert outcome.value == 1


# ---- memory, output, source -------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["x = 'a' * 10 ** 9", "x = [0] * 10 ** 8", "x = list(range(10 ** 8))"])
def test_memory(pool: Executor, line: str) -> None:
    outcome = run(pool, line, "return len(x)", memory_bytes=50 << 20)
    failed(outcome, "MemoryError", "the program may use 50 MiB", line=2)
    assert outcome.peak_bytes < 90 << 20
    caught = run(
        pool, "try:", f"    {line}", "except MemoryError:", "    return 'less'", memory_bytes=50 << 20
    )
    assert caught.value == "less"


@pytest.mark.parametrize("inside", [True, False], ids=["in the function", "outside"])
def test_memory_in_small_pieces(pool: Executor, inside: bool) -> None:
    """Whatever the size that it runs out at, and whether or not CPython finds room to note the line."""
    lines = ["kept = []", "while True: kept.append([kept])"]
    for more in range(0, 1 << 20, 1 << 16):
        memory = (40 << 20) + more
        if inside:
            outcome = run(pool, *lines, memory_bytes=memory)
        else:
            outcome = pool.run("\n".join(["", *lines]), {}, {}, Limits(memory_bytes=memory))
        failed(outcome, "MemoryError", line=3)


def test_output(pool: Executor) -> None:
    lines = ("try:", "    while True: print('x' * 99)", "except Exception: pass", "return 1")
    outcome = run(pool, *lines, output_bytes=1000)
    failed(outcome, "OutputLimit", "printed more than 1,000 characters", line=3)
    assert outcome.output == ("x" * 99 + "\n") * 10


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "too long"])
def test_source_bombs(pool: Executor, name: str) -> None:
    outcome = pool.run(
        f"def execute_command():\n    return 1\n{BOMBS[name]}", {}, {}, Limits(cpu_seconds=2.0)
    )
    # CPython may compile one (a program that never runs the bad line is valid) or refuse it with a message.
    if outcome.status == "failed":
        assert outcome.error is not None
        assert outcome.error.type in (
            *("SyntaxError", "IndentationError", "MemoryError", "RecursionError", "NameError", "Crashed"),
            *("ValueError", "UnicodeEncodeError", "CpuLimit", "TypeError", "SystemError", "AttributeError"),
        )
    assert pool.run("def execute_command():\n    return 1", {}, {}).value == 1


def test_a_source_beyond_its_bounds_is_not_even_sent(pool: Executor) -> None:
    failed(pool.run("#" * 70_000, {}, {}), "SourceLimit", "the program has 70,000 bytes, more than 65,536")


def test_endless_recursion(pool: Executor) -> None:
    head = "def f(n):\n    return f(n + 1)\n"
    failed(run(pool, "return f(0)", head=head), "RecursionError", "maximum recursion depth exceeded", line=2)


def test_a_recursion_that_breaks_the_stack(pool: Executor) -> None:
    lines = ("import enum", "enum.sys.setrecursionlimit(10 ** 8)", "return len(str(video))")
    head = "class A:\n    def __repr__(self):\n        return repr([self])\nvideo = A()\n"
    outcome = run(pool, "global video", *lines[:2], "return repr(A())", head=head, memory_bytes=1 << 30)
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert outcome.error.type in ("Crashed", "MemoryError", "RecursionError", "SyntaxError")


# ---- calls ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swallow", ["except Exception:", "except BaseException:"])
def test_calls(pool: Executor, swallow: str) -> None:
    count = 0

    def look() -> int:
        nonlocal count
        count += 1
        return count

    lines = (
        "got = []",
        "while True:",
        "    try:",
        "        got.append(look())",
        f"    {swallow}",
        "        pass",
    )
    outcome = run(pool, *lines, functions={"look": look}, calls=7)
    failed(outcome, "CallLimit", "the program made more than 7 calls", line=5)
    assert count == 7
    assert len(outcome.calls) == 7


def test_a_program_over_its_calls_fails_even_if_it_returns(pool: Executor) -> None:
    lines = ("try:", "    for n in range(9): look()", "except BaseException:", "    return 'fine'")
    outcome = run(pool, *lines, functions={"look": lambda: 1}, calls=3)
    failed(outcome, "CallLimit", line=3)


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


def test_a_huge_argument(pool: Executor) -> None:
    seen: list[Any] = []
    functions = {"look": seen.append}
    for big in ("'x' * 3_000_000", "[[0] * 10 for n in range(2000)]", "'\\0' * 400_000", "10 ** 400"):
        lines = (f"big = {big}", "look(big)")
        outcome = run(pool, *lines, functions=functions)
        failed(outcome, "TooLarge", "look()", line=3)
        caught = run(
            pool, "try:", f"    look({big})", "except ValueError: return 'less'", functions=functions
        )
        assert caught.value == "less"
    assert seen == []


def test_depth(pool: Executor) -> None:
    functions = {"look": lambda x: x}
    nest = ("x = []", "for n in range(video_depth): x = [x]")
    for depth, fits in ((31, True), (40, False), (5000, False)):
        lines = (nest[0], nest[1].replace("video_depth", str(depth)), "return look(x) == x")
        outcome = run(pool, *lines, functions=functions, depth=32)
        if fits:
            assert outcome.value is True
        else:
            failed(outcome, "TooLarge", "it is nested more than 34 deep", line=4)


def test_self_referencing_data_does_not_cross(pool: Executor) -> None:
    outcome = run(pool, "x = []", "x.append(x)", "return x")
    failed(outcome, "TooLarge", "what execute_command returned is too large")


def exploding() -> list[Any]:
    shared: list[Any] = ["leaf"]
    for _ in range(60):
        shared = [shared, shared]
    return shared


def test_shared_references_do_not_explode(pool: Executor) -> None:
    start = time.monotonic()
    inside = ("x = ['leaf']", "for n in range(30): x = [x, x]")
    failed(run(pool, *inside, "return x"), "TooLarge")
    failed(run(pool, *inside, "look(x)", functions={"look": lambda x: x}), "TooLarge", line=4)
    outcome = run(pool, "return len(look())", functions={"look": exploding})
    failed(
        outcome, "TooLarge", "the result of look() cannot be passed: it is nested more than 32 deep", line=2
    )
    flat = {"look": lambda: [["x" * 1000] * 1000] * 1000}
    failed(run(pool, "look()", functions=flat), "TooLarge", "it is larger than 4,194,304 bytes", line=2)
    assert time.monotonic() - start < 60


def test_a_result_that_does_not_fit_leaks_nothing(pool: Executor) -> None:
    """Handles of a refused result are unknown afterwards, and the same objects can cross later."""
    handle = object()
    results = iter([[handle, "x" * 100_000], [handle]])
    lines = ("try: look()", "except ValueError as e: pass", "return look()")
    outcome = run(pool, *lines, functions={"look": lambda: next(results)}, result_bytes=50_000)
    assert outcome.value == [handle]


def test_error_size(pool: Executor) -> None:
    outcome = run(pool, "raise ValueError('x' * 10 ** 6)", error_bytes=500, log_chars=2000)
    failed(outcome, "ValueError", "xxx")
    assert outcome.error is not None
    assert len(outcome.error.message) <= 500
    assert len(outcome.log) <= 2000

    def fail() -> None:
        raise ValueError("y" * 10**6)

    lines = ("try: fail()", "except ValueError as e: return len(str(e))")
    assert run(pool, *lines, functions={"fail": fail}, error_bytes=500).value == 500


def test_an_integer_of_megabytes(pool: Executor) -> None:
    start = time.monotonic()
    failed(run(pool, "return 1 << 30_000_000"), "TooLarge", "an integer of 30,000,001 bits")
    failed(run(pool, "raise ValueError(1 << 30_000_000)"), "ValueError")
    forged = run(pool, "send('d', b'9' * 900_000)", head=RAW)
    failed(forged, "ProtocolError")
    whole = run(pool, "return look()", functions={"look": lambda: 1 << 30_000_000})
    failed(whole, "TooLarge", "the result of look()")
    assert time.monotonic() - start < 60


# ---- a process that does not keep to the protocol ---------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "send('d', b'[' * 900_000)",
        "send('d', b'[' * 900_000 + b']' * 900_000)",
        'send("d", b\'{"t":[\' * 20_000 + b"]}" * 20_000)',
        "send('d', b'{\"h\": 77}')",
        "send('d', b'{\"h\": -1}')",
        "send('d', b'{\"h\": true}')",
        "send('d', b'{\"h\": [0]}')",
        "send('d', b'{\"q\": []}')",
        "send('d', b'{\"d\": [[[], 1]]}')",
        "send('d', b'{\"s\": 5}')",
        "send('d', b'{}')",
        "send('d', b'\\xff\\xfe')",
        "send('d', b'not json')",
        "send('d', json.dumps([[0]] * 100_000).encode())",
        "send('q', b'1')",
        "send('v', b'1')",
        "os.write(3, b'd' + b'\\xff' * 4 + b'x' * 100)",
        "send('e', b'7')",
        "send('e', b'[]')",
        "send('e', b'[[1, 2, 3]]')",
        'send(\'e\', b\'[["A", "b", [["x", 1]]]]\')',
        "send('e', b'[[\"A\", \"b\", 5]]')",
        "send('o', b'[1]')",
        "call('system', {'t': [{'t': ['ls']}, {'d': []}]}, 1)",
        "call('__class__', EMPTY, 1)",
        "call(['look'], EMPTY, 1)",
        "call('look', [[], {}], 1)",
        "call('look', {'t': [{'t': []}]}, 1)",
        "call('look', {'t': [{'t': []}, {'t': []}]}, 1)",
        "call('look', {'t': [{'t': []}, {'d': [[1, 2]]}]}, 1)",
        "call('look', EMPTY, 'x')",
        "call('look', EMPTY)",
        "call('look', {'t': [{'t': [{'h': 5}]}, {'d': []}]}, 1)",
        "send('c', b'7')",
        "os.write(3, b'Fatal nonsense'); os._exit(0)",
        "os.write(3, b'Stack'); os._exit(0)",
        "os.write(3, b'd\\0\\0'); os._exit(0)",
    ],
)
def test_forged_messages(pool: Executor, line: str) -> None:
    called: list[Any] = []
    lines = (line, "while True: os.read(3, 1000)")
    outcome = run(
        pool, *lines, functions={"look": lambda *a, **k: called.append(a)}, head=RAW, cpu_seconds=2.0
    )
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert outcome.error.type in ("ProtocolError", "Crashed")
    assert called == []


def test_colliding_keys_are_few(pool: Executor) -> None:
    """Multiples of 2**61 - 1 all have the hash 0: a dict of many takes quadratic time."""
    start = time.process_time()
    line = "send('d', json.dumps({'d': [[n * (2 ** 61 - 1), 0] for n in range(20_000)]}).encode())"
    outcome = run(pool, line, "os.read(3, 1)", head=RAW, cpu_seconds=20.0)
    failed(outcome, "ProtocolError", "more than 1,000 keys")
    assert time.process_time() - start < 10


def test_a_process_that_never_reads(pool: Executor) -> None:
    """It asks for results of megabytes and leaves them lying: the host's sending has a deadline."""
    lines = (
        "for n in range(40): call('look', EMPTY, 1)",
        "while True: time.sleep(9)",
    )
    outcome = run(
        pool,
        "import time",
        *lines,
        functions={"look": lambda: "x" * 3_000_000},
        head=RAW,
        wall_seconds=1.0,
    )
    failed(outcome, "WallLimit")
    assert 0 < len(outcome.calls) < 40


def test_a_flood_of_output(pool: Executor) -> None:
    outcome = run(pool, "while True: send('o', json.dumps('x' * 50_000).encode())", head=RAW)
    failed(outcome, "OutputLimit")
    assert len(outcome.output) <= 64 << 10


def test_a_message_that_trickles(pool: Executor) -> None:
    lines = ("import time", "os.write(3, b'd' + bytes([0, 0, 4, 0]))")
    drip = "while True: os.write(3, b'x'); time.sleep(0.1)"
    failed(run(pool, *lines, drip, head=RAW, wall_seconds=1.0), "WallLimit")


def test_a_last_word_after_the_last_word(pool: Executor) -> None:
    """A result counts; what the process does then, or that it stays, does not matter."""
    start = time.monotonic()
    outcome = run(pool, "send('d', b'5')", "while True: os.write(3, b'x' * 1000)", head=RAW, cpu_seconds=9.0)
    assert (outcome.status, outcome.value) == ("ok", 5)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("os._exit(0)", "ended its own process with status 0"),
        ("os._exit(7)", "ended its own process with status 7"),
        ("os.abort()", "ended by SIGABRT"),
        ("raise SystemExit(3)", "3"),
    ],
)
def test_the_wait_status_is_reported(pool: Executor, line: str, message: str) -> None:
    outcome = run(pool, "look()", line, functions={"look": lambda: 1}, head=RAW)
    failed(outcome, "SystemExit" if "raise" in line else "Crashed", message)
    assert len(outcome.calls) == 1


@pytest.mark.kills
def test_only_the_zygote_kills() -> None:
    """A process id may be somebody else's by the time that the host would use it."""
    folder = Path(conversation.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "os.kill" not in text, path
        assert "pidfd_send" not in text, path
