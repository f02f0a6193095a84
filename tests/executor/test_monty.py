"""Monty in place of the sandbox process: the same record and budgets, clear errors for the unsupported."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from perf.programs.ordinary import ORDINARY, PRELUDE, AnswerOnHost, World, natively
from videopro import executor
from videopro.executor import (
    Limits,
    MontyExecutor,
    Outcome,
    SandboxError,
    SandboxMissing,
    SandboxUnsafe,
    use_frames,
)
from videopro.modules.calls import PRELUDE as LIBRARY_PRELUDE

# Where Monty 1.4.0 differs from CPython: the name of an exception of the host's, a generator
# expression that is made whole at once, the last digit that round() leaves, the module's name.
OTHERWISE = ("nested tries", "lazy any", "numbers", "global names")


@pytest.fixture(scope="module")
def monty() -> Iterator[MontyExecutor]:
    with MontyExecutor() as made:
        yield made


def run(monty: MontyExecutor, *lines: str, functions: Any = None, **limits: Any) -> Outcome:
    program = "def execute_command(video):\n" + "\n".join("    " + line for line in lines)
    return monty.run(program, functions or {}, {"video": World().video}, Limits(**limits), PRELUDE)


def failed(outcome: Outcome, kind: str, message: str, line: int | None = None) -> None:
    assert outcome.status == "failed", outcome
    assert outcome.error is not None
    assert outcome.error.type == kind
    assert message in outcome.error.message
    assert line is None or outcome.error.line == line


def test_ordinary_programs(monty: MontyExecutor) -> None:
    good = 0
    for name, program in ORDINARY.items():
        world, native = World(), World()
        outcome = monty.run(program, world.functions(), world.inputs(), prelude=PRELUDE)
        wanted = natively(program, native)
        if outcome.status == "failed":
            assert outcome.error is not None
            assert outcome.error.type in ("NotImplementedError", "ModuleNotFoundError", "AttributeError"), (
                name
            )
            continue
        if name in OTHERWISE:
            continue
        value = [*outcome.value] if isinstance(outcome.value, AnswerOnHost) else outcome.value
        assert value == ([*wanted] if isinstance(wanted, AnswerOnHost) else wanted), name
        assert world.calls == native.calls == [call.fn for call in outcome.calls]
        good += 1
    assert good >= 17


def test_unsupported_features_are_reported(monty: MontyExecutor) -> None:
    outcome = run(monty, "import statistics", "return 1")
    failed(outcome, "ModuleNotFoundError", "programs run in Monty here, which knows a part of Python", line=2)


def test_the_same_object_comes_back(monty: MontyExecutor) -> None:
    world = World()
    find = "    c = get_informative_clips(video, 'kite')[1]"
    program = f"def execute_command(video):\n{find}\n    return [c[0], video]"
    value = monty.run(program, world.functions(), world.inputs(), prelude=PRELUDE).value
    assert value[0] is world.clips[2]
    assert value[1] is world.video


def test_the_librarys_prelude_runs(monty: MontyExecutor) -> None:
    class Line:
        __program_kind__ = "Line"
        __program_fields__ = ("start", "end", "text")

        def __init__(self) -> None:
            self.start, self.end, self.text = 1.0, 2.0, "a kite"

    line = Line()
    program = "def execute_command(video):\n    a, b = video\n    return a, b, str(video), video[1], video"
    value = monty.run(program, {}, {"video": line}, prelude=LIBRARY_PRELUDE).value
    assert value == (1.0, 2.0, "a kite", 2.0, line)


def test_an_error_has_its_line_and_the_calls(monty: MontyExecutor) -> None:
    world = World()
    program = "def execute_command(video):\n    c = get_informative_clips(video, 'kite')[1]\n    return c[7]"
    outcome = monty.run(program, world.functions(), world.inputs(), prelude=PRELUDE)
    failed(outcome, "IndexError", "list index out of range", line=3)
    assert "line 3, in execute_command: return c[7]" in outcome.log
    assert [call.fn for call in outcome.calls] == ["get_informative_clips"]
    dog = run(monty, "return get_informative_clips(video, 'dog')", functions=world.functions())
    failed(dog, "TypeError", "video must be the video", line=2)


def test_budgets(monty: MontyExecutor) -> None:
    start = time.monotonic()
    failed(run(monty, "while True: pass", cpu_seconds=0.2), "CpuLimit", "its 0.2 s of processor time")
    swallow = ("while True:", "    try: look()", "    except BaseException: pass")
    calls = run(monty, *swallow, functions={"look": lambda: 1}, calls=3, cpu_seconds=1.0)
    failed(calls, "CallLimit", "more than 3 calls", line=3)
    assert len(calls.calls) == 3
    caught = ("try:", "    for n in range(9): look()", "except BaseException: return 1")
    failed(run(monty, *caught, functions={"look": lambda: 1}, calls=3), "CallLimit", "more than 3 calls")
    failed(
        run(monty, "look()", functions={"look": lambda: use_frames(99)}, frames=9), "FrameLimit", "9 frames"
    )
    failed(run(monty, "while True: print('x' * 99)", output_bytes=500), "OutputLimit", "500 characters")
    failed(run(monty, "return 'x' * 10 ** 9", memory_bytes=50 << 20), "MemoryError", "")
    failed(run(monty, "look('x' * 3_000_000)", functions={"look": len}), "ValueError", "argument of look()")
    failed(
        run(monty, "look()", functions={"look": lambda: "x" * 9_000_000}), "ValueError", "result of look()"
    )
    failed(run(monty, "return 1 << 10_000"), "TooLarge", "an integer of 10,001 bits")
    failed(monty.run("#" * 70_000, {}, {}), "SourceLimit", "70,000 bytes")
    failed(run(monty, "def f(): return f()", "f()"), "RecursionError", "")
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    "line",
    [
        "return open('/etc/passwd').read()",
        "import os; return os.listdir('/')",
        "import subprocess",
        "import socket",
        "return ().__class__.__base__.__subclasses__()",
        "return Handle(99, 'Video')",
        "h = Handle(0, 'Video'); h._id = '0'; return h",
        "return _call('system', ('id',), {})",
        "return _call('look', 1, 2)",
        "return _call('look', (), {1: 2})",
    ],
)
def test_reaching_out_fails(monty: MontyExecutor, line: str) -> None:
    outcome = run(monty, line, functions={"look": lambda *args: args})
    assert outcome.status == "failed"
    assert outcome.calls == ()


def test_fatal_errors_are_raised_in_the_host(monty: MontyExecutor) -> None:
    class ServerDown(Exception):
        pass

    def ask() -> None:
        raise ServerDown("now")

    program = "def execute_command():\n    try:\n        ask()\n    except BaseException:\n        return 1"
    with pytest.raises(ServerDown):
        monty.run(program, {"ask": ask}, {}, fatal=(ServerDown,))


def test_it_is_used_where_there_is_no_seccomp(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> None:
        raise SandboxMissing("no seccomp.")

    monkeypatch.setattr(executor, "Executor", unavailable)
    with pytest.warns(UserWarning, match=r"no seccomp\. Programs therefore run in Monty"):
        made = executor.open_executor()
    with made:
        assert made.run("def execute_command():\n    return 1", {}, {}).value == 1
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            SandboxError, match=r"no seccomp\. programs need .*: pip install 'videopro\[monty\]'"
        ):
            executor.open_executor()


@pytest.mark.parametrize("fault", [SandboxUnsafe("a hole."), SandboxError("it died.")])
def test_it_is_not_used_where_the_sandbox_failed(
    monkeypatch: pytest.MonkeyPatch, fault: SandboxError
) -> None:
    def breached() -> None:
        raise fault

    monkeypatch.setattr(executor, "Executor", breached)
    with pytest.raises(SandboxError, match=str(fault)):
        executor.open_executor()
