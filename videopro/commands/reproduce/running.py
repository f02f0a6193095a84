"""Runs the stages in order, and records which are done and what they took."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil
import yaml

from videopro.cli import TIMES
from videopro.commands.doctor import size
from videopro.commands.reproduce.stages import TRAININGS, Command, Stage
from videopro.errors import RunError, reading_file
from videopro.storage import write_file

_PATIENCE = 60.0
"""Seconds that commands get to exit after Ctrl-C before they are killed."""
_GPU_MEMORY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--loop=1")
"""Prints the MiB in use on each GPU, each second."""


Took = dict[str, float]
"""What a command took. seconds; working: those of them that grow with the work (its parts, by those after the
first); spread: by which share these may differ for as many other parts (two standard errors); cpu_seconds;
memory: bytes of its largest process, at most."""


class Record:
    """`done/STAGE.json` of a reproduction: the stages that are done, and what they took."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "done"

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def of(self, stage: Stage) -> dict[str, Any] | None:
        """The record of a finished stage, with any settings; None if it is not finished, or its files are
        gone. Raises RunError if it cannot be read."""
        path = self._file(stage.name)
        if not all(each.exists() for each in (path, *stage.writes, *stage.fetches)):
            return None
        with reading_file(f"{path}:", "delete it: a finished stage then ends at once", RunError):
            return dict(json.loads(path.read_text(encoding="utf-8")))

    def is_done(self, stage: Stage) -> bool:
        """Whether a stage was finished with its current commands, and no stage that it reads from was redone
        since."""
        done = self.of(stage)
        if done is None or done["commands"] != stage.key:
            return False
        before = (path for kind in stage.after for path in self._folder.glob(f"{kind}*.json"))
        return all(path.stat().st_mtime <= self._file(stage.name).stat().st_mtime for path in before)

    def add(self, stage: Stage, took: Sequence[Took]) -> None:
        """Record a finished stage. Raises RunError."""
        row = {"commands": stage.key, "took": took}
        write_file(self._file(stage.name), json.dumps(row, indent=1) + "\n")


def memory(took: Sequence[Took]) -> list[str]:
    """The memory that commands took at most: of a process, and of a GPU."""
    return [size(max(each[kind] for each in took)) for kind in ("memory", "gpu_memory")]


def check_same(stages: Sequence[Stage], record: Record) -> None:
    """Raise RunError for a stage that was finished with other settings: later stages would mix both."""
    for stage in stages:
        # A stage that only fetches and prepares is done again: it leaves what is there.
        done = record.of(stage) if stage.writes else None
        if done is not None and done["commands"] != stage.key:
            raise RunError(
                f"stage {stage.name!r} was finished with other settings; set another --output, or delete "
                f"{', '.join(map(str, stage.writes))} and everything made from it"
            )


def run_stages(stages: Sequence[Stage], folder: Path) -> None:
    """Run the stages that are not finished. Each command's output is shown, and logged in `folder`/logs.

    Raises RunError, with the log and the command, for a command that fails: the stages before it are
    finished, and the same call resumes with it.
    """
    record = Record(folder)
    check_same(stages, record)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for number, stage in enumerate(stages, start=1):
        head = f"[{number}/{len(stages)}] {stage.name}: {stage.does}"
        if record.is_done(stage):
            print(f"{head}: already done", flush=True)
            continue
        print(head, *stage.commands, sep="\n    ", flush=True)
        took = _run_stage(stage, folder / "logs")
        record.add(stage, took)
        minutes = sum(each["seconds"] for each in took) / 60
        most, of_gpu = memory(took)
        print(f"    {stage.name} took {minutes:.1f} min, {most} of memory, {of_gpu} of a GPU", flush=True)


def write_settings(stages: Sequence[Stage]) -> None:
    """Write the files of all commands: those that prepare videos read those that ask about them."""
    for command in (each for stage in stages for each in stage.commands):
        if command.file is not None:
            settings = yaml.safe_dump(dict(command.settings or {}), sort_keys=False, allow_unicode=True)
            write_file(command.file, f"# {command}\n{settings}")


def _run_stage(stage: Stage, logs: Path) -> list[Took]:
    """Run a stage's commands. Returns what each took. Raises RunError."""
    took: list[Took] = []
    failures: list[RunError] = []
    for position, command in enumerate(stage.commands, start=1):
        end = f"-{position}" if len(stage.commands) > 1 else ""
        try:
            took.append(_run(stage, command, logs / f"{stage.name}{end}.log"))
        except RunError as error:
            failures.append(error)
            if stage.writes:  # others that only fetch and check still do so
                break
    if failures:
        more = f"; {len(failures) - 1} more of its commands failed" if failures[1:] else ""
        if not stage.writes:  # such as videos that are no longer published: one may never have all
            more += f"; to continue without the missing files, add --skip {stage.kind}"
        raise RunError(f"{failures[0]}{more}") from failures[0]
    if missing := [path for path in stage.writes if not path.exists()]:
        raise RunError(
            f"stage {stage.name!r} ended without an error, but {missing[0]} is missing; see its output in "
            f"{logs}"
        )
    return took


def _run(stage: Stage, command: Command, log: Path) -> Took:
    """Run a command, on each GPU if it is for each, and wait for all. The first one's output is shown."""
    times, gpus, began = log.with_suffix(".times"), log.with_suffix(".gpus"), time.time()
    times.unlink(missing_ok=True)
    with ExitStack() as stack:
        watching = stack.enter_context(gpus.open("wb"))
        if shutil.which(_GPU_MEMORY[0]):
            stack.callback(_end, subprocess.Popen(_GPU_MEMORY, stdout=watching, process_group=0))
        running, tees = [], []
        for environment in command.environments:
            process = subprocess.Popen(
                command.argv,
                env={**os.environ, **environment, TIMES: str(times.absolute())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # With what it starts: accelerate's launcher ends at a signal, and leaves its training alone.
                process_group=0,
            )
            stack.callback(_end, process)
            running.append(process)
            # It reads on where it cannot write (a full disk, a reader that has gone): the command would wait
            # for it. Of an earlier attempt, what it said is kept.
            out = None if len(running) == 1 else subprocess.DEVNULL
            tees.append(subprocess.Popen(["tee", "-aip", log], stdin=process.stdout, stdout=out))
        usages = []
        for process in running:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            usages.append(usage)
        unwritten = [tee.wait() for tee in tees]
    if failed := [process.returncode for process in running if process.returncode]:
        raise RunError(
            f"stage {stage.name!r} failed (status {failed[0]}); see its output in {log}; its command was: "
            f"{command}\nthe stages before it are finished; re-run the same command to resume"
        )
    if any(unwritten):
        raise RunError(f"{log}: cannot be written (see above)")
    working, spread = _work_in(times, stage.kind in TRAININGS)
    return {
        "seconds": time.time() - began,
        "working": working,
        "spread": spread,
        "cpu_seconds": sum(usage.ru_utime + usage.ru_stime for usage in usages),
        "memory": 1024.0 * max(usage.ru_maxrss for usage in usages),
        "gpu_memory": 2.0**20 * max(map(int, filter(str.isdigit, gpus.read_text().split())), default=0),
    }


def _work_in(times: Path, trains: bool) -> tuple[float, float]:
    """The seconds that a command's parts take, by those after the first, and their spread (`Took`), of the
    process that worked longest."""
    lines = times.read_text().splitlines() if times.exists() else ()
    found = [(0.0, 1.0)]
    for _, own in groupby(sorted(map(json.loads, lines)), itemgetter(0)):
        marks = list(own)
        # What an earlier attempt did took as long there.
        each: list[tuple[float, int]] = [(0.0, marks[0][2])]
        for (_, before, had), (_, after, has) in pairwise(marks):
            if has > had:
                each.append((after - before, has - had))
            elif trains:
                each = [(0.0, has)]  # the rows were prepared, and the training begins
        # The first part also loads what is loaded when it is first used.
        later = each[2:] or each[1:]
        error, rates = 1.0, [seconds / parts for seconds, parts in later]
        if len(rates) > 1:
            error = min(1.0, 2 * statistics.stdev(rates) / statistics.mean(rates) / len(rates) ** 0.5)
        rate = sum(seconds for seconds, _ in later) / max(sum(parts for _, parts in later), 1)
        found.append((rate * sum(parts for _, parts in each), error))
    return max(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a command and what it started end as by Ctrl-C, so that what was done is saved. SIGTERM, since a
    shell without a terminal has those that it starts in the background ignore SIGINT."""
    if process.poll() is not None:
        return
    deadline = time.monotonic() + _PATIENCE
    os.killpg(process.pid, signal.SIGTERM)
    while _is_running(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    with suppress(ProcessLookupError):  # none is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_running(group: int) -> bool:
    """Whether any process of a group still runs. A process that has ended may stay in the group forever if no
    process waits for it, so asking the kernel for the group is not enough."""
    for each in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError):  # it has just gone
            if os.getpgid(each.pid) == group and each.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False
