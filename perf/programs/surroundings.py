"""What a hostile program would harm, and whether it did: around a run of `perf.programs.corpus`."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf.programs.neighbours import FOUND
from perf.programs.ordinary import PRELUDE, World
from videopro.executor import Executor, Limits, Outcome

LIMITS = Limits(cpu_seconds=0.25, wall_seconds=4.0, memory_bytes=64 << 20, calls=50)


@dataclass
class Tally:
    """Outcomes of one family's programs."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """By status, or by the type of the error."""
    slowest: float = 0.0
    """Seconds."""


class Surroundings:
    """A secret file, a listener, another process, and this one; a context manager that knows them."""

    def __enter__(self) -> Surroundings:
        self._folder = tempfile.TemporaryDirectory(prefix="videopro-hostile-")
        self.folder = Path(self._folder.name)
        self.folder.chmod(0o777)  # Only the sandbox keeps another user out.
        self.secret = self.folder / "secret.txt"
        self.word = secrets.token_hex(16)
        self.secret.write_text(self.word)
        self.secret.chmod(0o666)
        os.environ["VIDEOPRO_TEST_SECRET"] = self.word
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(self.listener.getsockname())
        self.datagrams.setblocking(False)
        self.other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100000)"])
        random.seed(1)
        self.before = self._state()
        self.threads = threading.active_count()
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
        return {
            **world.inputs(),
            "secret": str(self.secret),
            "port": self.listener.getsockname()[1],
            "pid": os.getpid(),
            "other": self.other.pid,
        }

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

    def _datagram(self) -> bytes:
        return self.datagrams.recv(9)

    def differences(self) -> list[str]:
        """What is not as it was; empty when the host is untouched."""
        after = self._state()
        differences = [
            f"{name}: {was!r} became {after[name]!r}"
            for name, was in self.before.items()
            if after[name] != was
        ]
        # Threads of earlier work may end meanwhile; no new one may have started.
        if threading.active_count() > self.threads:
            differences.append(f"{threading.active_count()} threads run, {self.threads} did")
        if self.other.poll() is not None:
            differences.append("another process was ended")
        for name, receive in (("connection", self.listener.accept), ("datagram", self._datagram)):
            with contextlib.suppress(BlockingIOError):
                receive()
                differences.append(f"a {name} came in")
        return differences


def run_all(
    programs: Iterable[tuple[str, str]],
    executor: Executor,
    surroundings: Surroundings,
    side_by_side: int = 2,
    limits: Limits = LIMITS,
) -> dict[str, Tally]:
    """Run programs and tally their outcomes by family. Raises AssertionError for one that got through."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    lock = threading.Lock()

    def run_one(case: tuple[str, str]) -> None:
        name, text = case
        start = time.monotonic()
        world = World()
        outcome = executor.run(text, world.functions(), surroundings.inputs(world), limits, PRELUDE)
        seconds = time.monotonic() - start
        visible = _visible_text(outcome)
        assert surroundings.word not in visible, f"the secret got out of {text!r}: {visible}"
        assert "weights" not in visible, f"a hidden attribute got out of {text!r}: {visible}"
        assert FOUND not in visible, f"{text!r} found what another program left: {visible}"
        assert len(outcome.log) <= limits.log_chars
        assert len(outcome.output) <= limits.output_bytes
        assert len(outcome.calls) <= limits.calls
        assert outcome.peak_bytes <= limits.memory_bytes + (64 << 20)
        assert outcome.cpu_seconds < 5
        visible.encode("utf-8")
        with lock:
            tally = tallies[name]
            tally.outcomes[outcome.error.type if outcome.error else outcome.status] += 1
            tally.slowest = max(tally.slowest, seconds)

    with ThreadPoolExecutor(side_by_side) as threads:
        for _ in threads.map(run_one, programs):
            pass
    gc.collect()
    return dict(tallies)


def _visible_text(outcome: Outcome) -> str:
    """Everything readable that came out of a program."""
    error = (outcome.error.type, outcome.error.message) if outcome.error else ()
    return "\n".join([outcome.log, outcome.output, ascii(outcome.value), *error, *outcome.calls])
