"""Runs hostile and malformed programs in the executor, and checks that the host is unharmed; then hostile and
ordinary programs from many threads while the zygote is killed every now and then.

    nice -n 10 python -m tests.stress.hostile [--programs 1000] [--seconds 30] [--output FILE]
    nice -n 10 python -m tests.stress.hostile --seconds 3600 --threads 16 --kill-every 30

Of the second part, half of the programs are ordinary, and their results must be CPython's; some have
functions that raise KeyboardInterrupt, which must reach the caller. `run` may raise nothing else but
ZygoteGone, for a program that had called a function when its zygote was killed: it cannot be run twice; or,
on a busy machine, that a program was not started, for which several zygotes must have been killed. At the end
no process may be left, and the numbers of descriptors and memory must not have grown. Exits with
status 1 otherwise.
"""

import contextlib
import ctypes
import os
import platform
import random
import resource
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from perf.command import run_command
from perf.recording import write_record
from perf.timing import timed
from tests.stress.hostile_programs import FAMILIES, FOUND, corpus
from tests.stress.ordinary import ORDINARY, PRELUDE, World, natively, same
from videopro.cli import setting
from videopro.executor import Executor, Limits, Outcome, ZygoteGone
from videopro.executor.conversation import ProgramNotStarted

LIMITS = Limits(cpu_seconds=0.25, wall_seconds=4.0, memory_bytes=64 << 20, calls=50)
ROOM_MIB = 16.0
"""How much more memory the host may use in the last quarter of the time than in the second."""


@dataclass(frozen=True)
class HostileSettings:
    """Run hostile and ordinary programs, and kill the zygote every now and then."""

    programs: int = field(default=1000, metadata=setting("programs of the first part"))
    seed: int = field(default=0, metadata=setting("of the programs"))
    seconds: float = field(default=30.0, metadata=setting("seconds of the second part"))
    threads: int = field(default=4, metadata=setting("threads that run its programs"))
    kill_every: float = field(default=2.0, metadata=setting("mean seconds between kills"))
    output: Path | None = field(default=None, metadata=setting("file for the record"))


class Surroundings:
    """What a hostile program would harm: a secret file, a listener, another process, and this one. A context
    manager; `differences` says whether it did."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="videopro-hostile-")
        self.folder = Path(self._folder.name)
        self.folder.chmod(0o777)  # Only the sandbox keeps another user out.
        self.secret = self.folder / "secret.txt"
        self.word = secrets.token_hex(16)
        self.secret.write_text(self.word)
        self.secret.chmod(0o666)
        os.environ["VIDEOPRO_TEST_SECRET"] = self.word
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(self.listener.getsockname())
        for one in (self.listener, self.datagrams):
            one.setblocking(False)
        self.other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100000)"])
        self._before, self._threads = self._state(), threading.active_count()
        return self

    def __exit__(self, *exc: object) -> None:
        self.other.kill()
        self.other.wait()
        self.listener.close()
        self.datagrams.close()
        del os.environ["VIDEOPRO_TEST_SECRET"]
        self._folder.cleanup()

    def inputs(self, world: World) -> dict[str, Any]:
        """A program's inputs: what it could harm."""
        port = self.listener.getsockname()[1]
        harmed = {"secret": str(self.secret), "port": port, "pid": os.getpid(), "other": self.other.pid}
        return world.inputs() | harmed

    def _state(self) -> dict[str, Any]:
        return {
            "files": {path.name: (path.read_text(), path.stat().st_mode) for path in self.folder.iterdir()},
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "users": (os.getuid(), os.geteuid(), os.getgid()),
            "recursion": sys.getrecursionlimit(),
            "limits": [resource.getrlimit(number) for number in range(16)],
            "builtins": sorted(vars(sys.modules["builtins"])),
            "random": random.getstate(),
            "tmp": os.path.exists("/tmp/mark"),  # What one family would leave for others.
        }

    def differences(self) -> list[str]:
        """What is not as it was; empty when the host is untouched."""
        after = self._state()
        found = [f"{name}: {was!r} became {after[name]!r}" for name, was in self._before.items()]
        found = [text for text, name in zip(found, after, strict=True) if after[name] != self._before[name]]
        # Threads of earlier work may end meanwhile; no new one may have started.
        if threading.active_count() > self._threads:
            found.append(f"{threading.active_count()} threads run, {self._threads} did")
        if self.other.poll() is not None:
            found.append("another process was ended")
        receivers: dict[str, Callable[[], object]] = {
            "connection": self.listener.accept,
            "datagram": lambda: self.datagrams.recv(9),
        }
        for name, receive in receivers.items():
            with contextlib.suppress(BlockingIOError):
                receive()
                found.append(f"a {name} came in")
        return found


class Attack:
    """Runs programs, checks each, and keeps how they ended and what went wrong. Thread-safe."""

    def __init__(self, executor: Executor, surroundings: Surroundings, limits: Limits = LIMITS) -> None:
        self.executor = executor
        self._surroundings = surroundings
        self._limits = limits
        self._lock = threading.Lock()
        self.ends: dict[str, Counter[str]] = {}
        self.faults: list[str] = []
        self.kills = 0

    def run(self, family: str, text: str) -> Outcome | None:
        """Run one program. Raises AssertionError if it got through; None: it was lost with its zygote."""
        world, limits = World(), self._limits
        try:
            outcome = self.executor.run(
                text, world.functions(), self._surroundings.inputs(world), limits, PRELUDE
            )
        except (ZygoteGone, ProgramNotStarted) as error:
            is_lost = isinstance(error, ZygoteGone)
            self._count(family, "lost with its zygote" if is_lost else "not started")
            return None
        self._count(family, outcome.error.type if outcome.error else outcome.status)
        error = (outcome.error.type, outcome.error.message) if outcome.error else ()
        visible = "\n".join([outcome.log, outcome.output, ascii(outcome.value), *error, *outcome.calls])
        for word in (self._surroundings.word, "weights", FOUND):
            assert word not in visible, f"{word!r} got out of {text!r}: {visible}"
        assert len(outcome.log) <= limits.log_chars
        assert len(outcome.output) <= limits.output_bytes
        assert len(outcome.calls) <= limits.calls
        assert outcome.peak_bytes <= limits.memory_bytes + (64 << 20)
        assert outcome.cpu_seconds < 5
        assert family != "forged messages" or not (world.calls or outcome.calls)
        visible.encode("utf-8")
        return outcome

    def run_any(self, chance: random.Random) -> None:
        """An ordinary program, a hostile one, or one whose function is interrupted."""
        draw = chance.random()
        if draw < 0.5:
            name = chance.choice(list(ORDINARY))
            outcome = self.run("ordinary", ORDINARY[name])
            expected = natively(ORDINARY[name], World())
            assert outcome is None or same(outcome.value, expected), f"{name}: {outcome}"
        elif draw < 0.97:
            name = chance.choice(list(FAMILIES))
            self.run(name, FAMILIES[name].text(chance.choice(FAMILIES[name].acts), chance))
        else:
            try:
                self.executor.run(
                    "def execute_command():\n    stop()", {"stop": _interrupt}, {}, self._limits
                )
            except (KeyboardInterrupt, ZygoteGone, ProgramNotStarted) as error:
                self._count("interrupts", type(error).__name__)
            else:
                raise AssertionError("an interrupt was lost")

    def keep_running(self, seed: int, until: float) -> None:
        """Run programs until then; one thread."""
        chance = random.Random(seed)
        while time.monotonic() < until:
            try:
                self.run_any(chance)
            except BaseException:
                with self._lock:
                    self.faults.append(traceback.format_exc()[-2000:])

    def keep_killing(self, every: float, until: float) -> None:
        """Kill -9 the zygote at random times, and in a quarter of cases the next one while it starts."""
        chance = random.Random(1)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(chance.expovariate(1 / every), left))
            for _ in range(2 if chance.random() < 0.25 else 1):
                for pid in _sandbox_processes(os.getpid()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        self.kills += 1
                time.sleep(chance.random() * 0.4)

    def _count(self, family: str, end: str) -> None:
        with self._lock:
            self.ends.setdefault(family, Counter())[end] += 1


def _interrupt() -> None:
    raise KeyboardInterrupt("stop")


def _sandbox_processes(parent: int | None = None) -> list[int]:
    """Zygotes of this process and their descendants, whatever their parent is now; or those of `parent`."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if b"inside.zygote" in command and f", {os.getpid()})".encode() in command:
                of = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                processes += [int(folder.name)] if parent in (None, of) else []
    return processes


def attack(programs: int, seed: int, limits: Limits = LIMITS) -> dict[str, Any]:
    """Run a corpus, two programs at once. Returns what came of it."""
    with timed() as spent, Surroundings() as surroundings, Executor() as executor:
        attacker = Attack(executor, surroundings, limits)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda case: attacker.run(*case), corpus(programs, seed)))
        return {
            "programs": programs,
            "families": {name: dict(ends.most_common()) for name, ends in sorted(attacker.ends.items())},
            "seed": seed,
            "walls": [*executor.restrictions, "seccomp"],
            "harm": surroundings.differences(),
            **spent.rounded(),
        }


def soak(seconds: float, threads: int, kill_every: float) -> dict[str, Any]:
    """Run programs from many threads while zygotes are killed. Returns what came of it; `wrong`: the problems
    if there are any."""
    samples: list[tuple[int, float]] = []
    # Many threads share few cores, so programs need more wall time.
    limits = replace(LIMITS, wall_seconds=8.0)
    open_before = len(os.listdir("/proc/self/fd"))
    with Surroundings() as surroundings, Executor() as executor:
        run = Attack(executor, surroundings, limits)
        until = time.monotonic() + seconds
        jobs = [threading.Thread(target=run.keep_running, args=(seed, until)) for seed in range(threads)]
        jobs.append(threading.Thread(target=run.keep_killing, args=(kill_every, until)))
        for job in jobs:
            job.start()
        while time.monotonic() < until:
            time.sleep(max(seconds / 60, 0.5))
            samples.append((len(os.listdir("/proc/self/fd")), _memory_mib()))
        for job in jobs:
            job.join()
        harm = surroundings.differences()
        open_at_the_end = len(os.listdir("/proc/self/fd"))
    until = time.monotonic() + 10
    while (left := _sandbox_processes()) and time.monotonic() < until:
        time.sleep(0.1)
    quarter = len(samples) // 4
    descriptors, memory = (
        [statistics.median(part) for part in (values[quarter : 2 * quarter], values[-quarter:])]
        for values in zip(*samples, strict=True)
    )
    wrong = [*run.faults, *harm, *(f"process {pid} is left" for pid in left)]
    not_started = sum(ends["not started"] for ends in run.ends.values())
    if 2 * not_started > run.kills:
        wrong.append(f"{not_started} programs were not started")
    if memory[1] > memory[0] + ROOM_MIB:
        wrong.append(f"memory grew: {memory} MiB")
    # Programs that run at the time of a sample have some; at the end the executor has a zygote.
    if descriptors[1] > descriptors[0] + 4 * threads or open_at_the_end > open_before + 10:
        wrong.append(f"descriptors stay open: {descriptors}, {open_at_the_end}")
    return {
        "seconds": seconds,
        "threads": threads,
        "programs": sum(ends.total() for ends in run.ends.values()),
        "kills": run.kills,
        "lost_with_a_killed_zygote": sum(ends["lost with its zygote"] for ends in run.ends.values()),
        "descriptors": [*descriptors, open_at_the_end],
        "memory_mib": memory,
        "wrong": wrong,
    }


def _memory_mib() -> float:
    """This process's memory after the C library has returned what it caches for its threads."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def run(settings: HostileSettings) -> int:
    """Both parts: print what came of them and write it. Returns 1 if anything went wrong."""
    corpus_record = attack(settings.programs, settings.seed)
    for name, ends in corpus_record["families"].items():
        print(f"{name:<30} {', '.join(f'{number} {kind}' for kind, number in ends.items())}")
    print("the host is untouched" if not corpus_record["harm"] else corpus_record["harm"])
    killed = soak(settings.seconds, settings.threads, settings.kill_every)
    print("\n".join(f"{name}: {value}" for name, value in killed.items()))
    if settings.output is not None:
        machine = {"python": platform.python_version(), "kernel": platform.release(), "cores": os.cpu_count()}
        write_record(settings.output, {**corpus_record, "restarts_under_kills": killed, **machine})
    return 1 if corpus_record["harm"] or killed["wrong"] else 0


if __name__ == "__main__":
    run_command(HostileSettings, run)
