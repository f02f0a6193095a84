"""Runs hostile and ordinary programs for an hour from many threads, and kills the zygote every now and then.

    nice -n 10 python -m perf.soak [--seconds 3600] [--threads 16] [--kill-every 30] \\
        [--output perf/soak.json]

Half of the programs are ordinary, and their results must be CPython's. The others come from every hostile
family; some have functions that raise KeyboardInterrupt, which must reach the caller. `run` may raise nothing
else but ZygoteGone, for a program that had called a function when its zygote was killed: it cannot be run
twice. At the end no process may be left, and the numbers of descriptors and memory must not have grown. Exits
with status 1 otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import random
import signal
import statistics
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perf.command import run_command
from perf.programs.corpus import FAMILIES
from perf.programs.neighbours import FOUND
from perf.programs.ordinary import ORDINARY, PRELUDE, AnswerOnHost, World, natively
from perf.programs.surroundings import LIMITS, Surroundings
from perf.recording import write_record
from perf.timing import timed
from videopro.cli import CommandLine, setting
from videopro.executor import Executor, Outcome, ZygoteGone

PAGE = os.sysconf("SC_PAGE_SIZE")
ROOM_MIB = 16.0
"""How much more memory the host may use in the last quarter of the time than in the second."""
LONG_LIMITS = replace(LIMITS, wall_seconds=8.0)
"""Many threads share few cores, so programs need more wall time."""


@dataclass(frozen=True)
class SoakSettings:
    """How long, how many at once, and where the record goes."""

    seconds: float = field(default=3600.0, metadata=setting("how long"))
    threads: int = field(default=16, metadata=setting("threads that run programs"))
    kill_every: float = field(default=30.0, metadata=setting("mean seconds between kills"))
    output: Path | None = field(default=None, metadata=setting("file for the record"))


COMMAND = CommandLine(
    "perf.soak",
    SoakSettings,
    summary="Run hostile and ordinary programs for an hour, and kill the zygote every now and then.",
)


class Soak:
    """Runs the programs and keeps their outcomes, faults and resource samples. Thread-safe."""

    def __init__(self, executor: Executor, surroundings: Surroundings, seconds: float) -> None:
        self._executor = executor
        self._surroundings = surroundings
        self._begun = time.monotonic()
        self._until = self._begun + seconds
        self._lock = threading.Lock()
        self._expected = {name: _plain(natively(text, World())) for name, text in ORDINARY.items()}
        self.outcomes: dict[str, Counter[str]] = {}
        self.faults: list[str] = []
        self.samples: list[dict[str, float]] = []
        self.kills = 0

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    def keep_running(self, seed: int) -> None:
        """Run programs until the time is up; one thread."""
        chance = random.Random(seed)
        while not self.over():
            try:
                draw = chance.random()
                if draw < 0.5:
                    self._ordinary(chance.choice(list(ORDINARY)))
                elif draw < 0.97:
                    self._hostile(chance.choice(list(FAMILIES)), chance)
                else:
                    self._interrupted()
            except BaseException:
                self._fault(traceback.format_exc())

    def keep_killing(self, every: float) -> None:
        """Kill -9 the zygote at random times, and in a quarter of cases the next one while it starts."""
        chance = random.Random(1)
        while not self.over():
            time.sleep(min(chance.expovariate(1 / every), max(self._until - time.monotonic(), 0)))
            if self.over():
                return
            for _ in range(2 if chance.random() < 0.25 else 1):
                for pid in _zygotes():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        self.kills += 1
                time.sleep(chance.random() * 0.4)

    def keep_sampling(self, every: float) -> None:
        """Sample resource use until the time is up."""
        while not self.over():
            self.sample()
            time.sleep(min(every, max(self._until - time.monotonic(), 0)))

    def sample(self) -> dict[str, float]:
        """Record what the host and its zygote use now."""
        zygote = self._executor._zygote
        pid = zygote.pid if zygote is not None else 0
        sample = {
            "second": round(time.monotonic() - self._begun, 1),
            "programs": sum(counter.total() for counter in list(self.outcomes.values())),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "rss_mib": _rss("self"),
            "held_mib": _trimmed_memory(),
            "zygote": pid,
            "zygote_rss_mib": _rss(str(pid)) if pid else 0.0,
            "zygote_descriptors": _descriptors(pid) if pid else 0,
            "processes": len(_sandbox_processes()),
            "load": os.getloadavg()[0],
        }
        self.samples.append(sample)
        return sample

    def _ordinary(self, name: str) -> None:
        world = World()
        outcome = self._run(
            "ordinary", ORDINARY[name], world.functions(), {**self._surroundings.inputs(world)}
        )
        if outcome is not None and _plain(outcome.value) != self._expected[name]:
            self._fault(f"{name} gave {outcome.value!r}, not {self._expected[name]!r}: {outcome.log}")

    def _hostile(self, name: str, chance: random.Random) -> None:
        world = World()
        text = FAMILIES[name](chance)
        outcome = self._run(name, text, world.functions(), self._surroundings.inputs(world))
        if outcome is None:
            return
        output = f"{outcome.log}\n{outcome.output}\n{outcome.value!r}"
        for word in (self._surroundings.word, "weights", FOUND):
            if word in output:
                self._fault(f"{word!r} got out of {text!r}: {output}")

    def _interrupted(self) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt("stop")

        try:
            self._run("interrupts", "def execute_command():\n    stop()", {"stop": interrupt}, {})
        except KeyboardInterrupt:
            self._count("interrupts", "KeyboardInterrupt")
        else:
            self._fault("an interrupt was lost")

    def _run(self, family: str, text: str, functions: Any, inputs: Any) -> Outcome | None:
        try:
            outcome = self._executor.run(text, functions, inputs, LONG_LIMITS, PRELUDE)
        except ZygoteGone:
            self._count(family, "lost with its zygote")
            return None
        self._count(family, outcome.error.type if outcome.error else outcome.status)
        return outcome

    def _count(self, family: str, ending: str) -> None:
        with self._lock:
            self.outcomes.setdefault(family, Counter())[ending] += 1

    def _fault(self, fault: str) -> None:
        with self._lock:
            self.faults.append(fault[-2000:])
        print(f"FAULT: {fault}", file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    """A value with its handles replaced by what they show, so that two runs can be compared."""
    if isinstance(value, AnswerOnHost):
        return [*value]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__ if type(value) is list else "tuple", *map(_plain, value)]
    return value


def _rss(pid: str) -> float:
    try:
        return round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20, 1)
    except OSError:
        return 0.0


def _trimmed_memory() -> float:
    """This process's memory after the C library has returned what it caches for its threads, in MiB."""
    ctypes.CDLL(None).malloc_trim(0)
    return _rss("self")


def _descriptors(pid: int) -> int:
    """The number of open descriptors; 0 for a process that cannot be read."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _sandbox_processes() -> list[int]:
    """Zygotes of this process and their descendants, whatever their parent is now."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if b"inside.zygote" in command and f", {os.getpid()})".encode() in command:
                processes.append(int(folder.name))
    return processes


def _zygotes() -> list[int]:
    """The zygotes that this process started itself."""
    zygotes = []
    for pid in _sandbox_processes():
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                zygotes.append(pid)
    return zygotes


def soak(settings: SoakSettings) -> dict[str, Any]:
    """Run the whole soak. Returns the record."""
    with timed() as spent, Surroundings() as surroundings, Executor() as executor:
        run = Soak(executor, surroundings, settings.seconds)
        threads = [
            threading.Thread(target=run.keep_running, args=(seed,)) for seed in range(settings.threads)
        ]
        threads.append(threading.Thread(target=run.keep_killing, args=(settings.kill_every,)))
        threads.append(threading.Thread(target=run.keep_sampling, args=(max(settings.seconds / 60, 5.0),)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.sample()
        harm = surroundings.differences()
    until = time.monotonic() + 10
    while _sandbox_processes() and time.monotonic() < until:
        time.sleep(0.1)
    return {
        "seconds": round(spent.wall_s, 1),
        "cpu_s": round(spent.cpu_s, 1),
        "threads": settings.threads,
        "nice": os.nice(0),
        "beside": "other work of the same machine; see the samples' load",
        "programs": sum(counter.total() for counter in run.outcomes.values()),
        "kills": run.kills,
        "lost_with_a_killed_zygote": sum(counts["lost with its zygote"] for counts in run.outcomes.values()),
        "faults": run.faults,
        "harm": harm,
        "processes_left": len(_sandbox_processes()),
        "descriptors": _quarters(run.samples, "descriptors"),
        "rss_mib": _quarters(run.samples, "rss_mib"),
        "held_mib": _quarters(run.samples, "held_mib"),
        "outcomes": {name: dict(counts.most_common()) for name, counts in sorted(run.outcomes.items())},
        "samples": run.samples,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _quarters(samples: list[dict[str, float]], name: str) -> dict[str, float]:
    """Medians over each quarter of the time, the maximum, and the value when all programs have ended."""
    values = [sample[name] for sample in samples]
    cut = max(len(values) // 4, 1)
    medians = {
        f"quarter_{n + 1}": statistics.median(values[n * cut : (n + 1) * cut] or values) for n in range(4)
    }
    return {**medians, "most": max(values), "at_the_end": values[-1]}


def verdict(record: dict[str, Any]) -> list[str]:
    """The problems in a record; empty if there are none."""
    wrong = [f"{len(record['faults'])} faults"] if record["faults"] else []
    wrong += [f"harm: {harm}" for harm in record["harm"]]
    if record["processes_left"]:
        wrong.append(f"{record['processes_left']} processes are left")
    memory = record["held_mib"]
    if memory["quarter_4"] > memory["quarter_2"] + ROOM_MIB:
        wrong.append(f"memory grew: {memory}")
    descriptors = record["descriptors"]
    # At the end only the standard ones, the surroundings' and a zygote's are open; no program's.
    if descriptors["at_the_end"] > 16 or descriptors["quarter_4"] > descriptors["quarter_2"] + 4:
        wrong.append(f"descriptors stay open: {descriptors}")
    return wrong


def run(settings: SoakSettings) -> int:
    """Soak, print the outcomes and write them. Returns 1 if anything went wrong."""
    record = soak(settings)
    wrong = verdict(record)
    for name, counts in record["outcomes"].items():
        print(f"{name:<30} {', '.join(f'{number} {kind}' for kind, number in counts.items())}")
    print(
        f"\n{record['programs']} programs, {record['kills']} kills, {record['seconds']:.0f} s, "
        f"{record['cpu_s']:.0f} CPU s; "
        f"descriptors {record['descriptors']}, memory {record['held_mib']}"
    )
    print("no program got through, none was lost" if not wrong else "\n".join(["WRONG:", *wrong]))
    if settings.output is not None:
        write_record(settings.output, {**record, "wrong": wrong})
    return 1 if wrong else 0


if __name__ == "__main__":
    run_command(COMMAND, run)
