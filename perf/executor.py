"""Times one generated program in the sandbox and elsewhere: wall and CPU time of a program and of a call.

    python -m perf.executor [--programs 300] [--output FILE]

Contenders: `videopro.executor`; smolagents' LocalPythonExecutor, which interprets the syntax tree in the host
process; and a plain `python -c` child per program, which talks to the host in lines of JSON and confines
nothing. The lower bounds are measured in the same run. "Two processes" bounds a call between processes: a
child echoes the bytes of a call over a socket. "Fork and pipe" bounds a program in its own process: fork a
bare process that writes one byte into a pipe and exits, and wait for it. Compare ratios, and mind the load,
which is recorded with them. CPU time covers every process that takes part, including the host. "Equal" counts
the ordinary programs of `tests/stress/ordinary.py` that give CPython's result. The recorded figures are
those of `--output perf/executor.json`.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from perf.timing import cpu_seconds
from tests.stress.ordinary import ORDINARY, PRELUDE, AnswerOnHost, World, natively
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.executor import Executor, Limits


@dataclass(frozen=True)
class ExecutorSettings:
    """Time one generated program in the sandbox and elsewhere."""

    programs: int = field(default=300, metadata=setting("programs that each contender runs"))
    output: Path | None = field(default=None, metadata=setting("file for the figures"))


PROGRAM = ORDINARY["release signature"]
CALLS = 2000
CALLING = f"""
def execute_command(video, question):
    for n in range({CALLS}):
        look(n, text="a red kite")
    return {CALLS}"""

Run = Callable[[str, dict[str, Callable[..., Any]], dict[str, Any]], Any]


def ours(executor: Executor) -> Run:
    """The sandbox."""

    def run(program: str, functions: dict[str, Callable[..., Any]], inputs: dict[str, Any]) -> Any:
        outcome = executor.run(program, functions, inputs, Limits(calls=CALLS + 1), PRELUDE)
        if outcome.error is not None:
            raise RuntimeError(outcome.log)
        return outcome.value

    return run


def smolagents() -> Run:
    """An interpreter in the host process, as smolagents' agents use it: a fresh one for each program."""
    from smolagents.local_python_executor import LocalPythonExecutor

    modules = [
        *("bisect", "contextlib", "dataclasses", "decimal", "enum", "fractions"),
        *("functools", "heapq", "json", "string", "typing"),
    ]

    def run(program: str, functions: dict[str, Callable[..., Any]], inputs: dict[str, Any]) -> Any:
        interpreter = LocalPythonExecutor(additional_authorized_imports=modules)
        interpreter.send_tools(functions)
        interpreter.send_variables(inputs)
        head = program.partition("execute_command(")[2].partition("):")[0]
        names = [name for name in inputs if name in head.replace(":", ",").replace(" ", "").split(",")]
        call = ", ".join(f"{name}={name}" for name in names)
        return interpreter(f"{program}\nexecute_command({call})").output

    return run


# What `python -c` runs: reads the program from the first line, sends calls as lines of JSON, the result last.
_CHILD = """
import json, sys
start = json.loads(sys.stdin.readline())
def proxy(name):
    def call(*args, **kwargs):
        print(json.dumps([name, args, kwargs]), flush=True)
        return json.loads(sys.stdin.readline())
    return call
space = {name: proxy(name) for name in start["functions"]}
exec(start["program"], space)
print(json.dumps(["", space["execute_command"]("video", "question"), {}]), flush=True)
"""


def plain_child() -> Run:
    """A fresh interpreter for each program; plain data only, nothing confined."""

    def run(program: str, functions: dict[str, Callable[..., Any]], inputs: dict[str, Any]) -> Any:
        command = [sys.executable, "-I", "-c", _CHILD]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None

            def send(message: Any) -> None:
                assert child.stdin is not None
                child.stdin.write(json.dumps(message) + "\n")
                child.stdin.flush()

            send({"program": program, "functions": list(functions)})
            for line in child.stdout:
                name, args, kwargs = json.loads(line)
                if not name:
                    return args
                send(functions[name](*args, **kwargs))
        raise RuntimeError("the child ended without a result")

    return run


PLAIN = """
def execute_command(video, question):
    intervals = get_informative_clips(video, "the sign", top_k=2)
    frames = []
    for start, end in intervals:
        frames.extend(extract_frames(video, start, end))
    return query_mc(frames, question)"""
PLAIN_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_informative_clips": lambda video, query, top_k=3: [[10.0 * n, 10.0 * n + 10] for n in range(top_k)],
    "extract_frames": lambda video, start, end: [start, end],
    "query_mc": lambda frames, question: ["A", 0.5],
}
INPUTS = {"video": "v", "question": "What is written on the sign?"}


def measure(run: Run, programs: int) -> dict[str, float]:
    """Median milliseconds per program (of three calls) and microseconds per call, programs per second from
    two threads, and mean CPU times of all processes that take part."""

    def run_plain(_: int = 0) -> float:
        begun = time.perf_counter()
        if list(run(PLAIN, PLAIN_FUNCTIONS, INPUTS)) != ["A", 0.5]:
            raise RuntimeError("a wrong result")
        return time.perf_counter() - begun

    for _ in range(3):
        run_plain()
    before = cpu_seconds()
    single = statistics.median(run_plain() for _ in range(programs))
    cpu = (cpu_seconds() - before) / programs
    calls = []
    before = cpu_seconds()
    for _ in range(5):
        stamps: list[float] = []

        def look(n: int, text: str, stamps: list[float] = stamps) -> int:
            stamps.append(time.perf_counter())
            return n

        if run(CALLING, {"look": look}, INPUTS) != CALLS:
            raise RuntimeError("a wrong result")
        calls.append(statistics.median(after - before for before, after in pairwise(stamps)))
    # Minus the cost of a program itself; its three calls are negligible among thousands.
    call_cpu = max((cpu_seconds() - before - len(calls) * cpu) / (len(calls) * CALLS), 0.0)
    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run_plain, range(programs)))
    return {
        "program_ms": round(single * 1e3, 3),
        "program_cpu_ms": round(cpu * 1e3, 3),
        "call_us": round(statistics.median(calls) * 1e6, 2),
        "call_cpu_us": round(call_cpu * 1e6, 2),
        "programs_per_s": round(programs / (time.perf_counter() - begun), 1),
    }


def fork_and_pipe(programs: int) -> dict[str, float]:
    """Milliseconds from a fork to the end of a child that writes one byte. Runs in a bare interpreter, as
    small as a zygote: a large process takes longer to fork."""
    code = f"""
import os, statistics, time
times = []
before = sum(os.times()[:4])
for _ in range({programs}):
    begun = time.perf_counter()
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ours, b"x")
        os._exit(0)
    os.read(theirs, 1)
    os.waitpid(pid, 0)
    os.close(theirs)
    os.close(ours)
    times.append(time.perf_counter() - begun)
print(statistics.median(times), (sum(os.times()[:4]) - before) / {programs})
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    wall, cpu = map(float, done.stdout.split())
    return {"program_ms": round(wall * 1e3, 3), "program_cpu_ms": round(cpu * 1e3, 3)}


def echo() -> dict[str, float]:
    """Microseconds until another process has echoed a message (two wake-ups, no work), and the CPU
    time of both."""
    ours, theirs = socket.socketpair()
    used = cpu_seconds()
    pid = os.fork()
    if pid == 0:
        ours.close()
        while message := theirs.recv(1 << 13):
            theirs.sendall(message)
        os._exit(0)
    theirs.close()
    times = []
    for _ in range(10 * CALLS):
        begun = time.perf_counter()
        ours.sendall(b"x" * 64)
        ours.recv(1 << 13)
        times.append(time.perf_counter() - begun)
    ours.close()
    os.waitpid(pid, 0)
    cpu = (cpu_seconds() - used) / len(times)
    return {"call_us": round(statistics.median(times) * 1e6, 2), "call_cpu_us": round(cpu * 1e6, 2)}


def equal(run: Run) -> int:
    """How many of the ordinary programs give CPython's result, in value and type."""
    count = 0
    for program in ORDINARY.values():
        expected = natively(program, World())
        world = World()
        try:
            actual = run(program, world.functions(), world.inputs())
        except Exception:
            continue
        if isinstance(expected, AnswerOnHost):
            count += isinstance(actual, AnswerOnHost) and [*actual] == [*expected]
        else:
            count += bool(actual == expected)
    return count


def compare(settings: ExecutorSettings) -> None:
    """Measure, print the table and write it. Raises ConfigError without smolagents."""
    if find_spec("smolagents") is None:
        raise ConfigError("this compares with smolagents, which is not installed: pip install -e '.[perf]'")
    load = os.getloadavg()[0]
    # First, before there are threads: this forks.
    rows: dict[str, dict[str, Any]] = {
        "two processes": echo(),
        "fork and pipe": fork_and_pipe(settings.programs),
    }
    with Executor() as executor:
        measured = measure(ours(executor), settings.programs)
        rows["videopro"] = {**measured, "equal": equal(ours(executor))}
    interpreted = smolagents()
    measured = measure(interpreted, settings.programs)
    rows["smolagents"] = {**measured, "equal": equal(interpreted)}
    rows["python -c"] = measure(plain_child(), max(settings.programs // 10, 5))
    record = {
        "results": rows,
        "ordinary_programs": len(ORDINARY),
        "cores": os.cpu_count(),
        "load": round(load, 2),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    print_tables("perf/executor.json", record)
    if settings.output is not None:
        write_record(settings.output, record)


if __name__ == "__main__":
    run_command(ExecutorSettings, compare)
