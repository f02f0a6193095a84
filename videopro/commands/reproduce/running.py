"""Runs the stages in order, and records which are done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import yaml

from videopro.commands.reproduce.stages import Command, Stage, shown
from videopro.errors import RunError, cannot_write, reason_of, writing_file
from videopro.storage import parse_json, write_atomically

_PATIENCE = 60.0
"""Seconds that commands get to exit after Ctrl-C before they are killed."""


@dataclass(frozen=True)
class Done:
    """A finished stage."""

    name: str
    key: str
    """`Stage.key` of that time."""
    seconds: float
    """Seconds that the last call worked on it."""
    ended: float
    """When: seconds since 1970."""


class Record:
    """`stages.json` of a reproduction: which stages are done, and how long they took."""

    def __init__(self, folder: Path) -> None:
        """Raises RunError if it cannot be read."""
        self._path = folder / "stages.json"
        self._stages: dict[str, Done] = {}
        if self._path.exists():
            try:
                rows = parse_json(self._path.read_text(encoding="utf-8"))
                self._stages = {row["name"]: Done(**row) for row in rows}
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise RunError(
                    f"{self._path}: cannot be read ({reason_of(error)}); delete it; finished stages then end "
                    "at once"
                ) from error

    def of(self, stage: Stage) -> Done | None:
        """The record of a finished stage, with any settings; None if it is not finished, or its files are
        gone."""
        done = self._stages.get(stage.name)
        is_there = all(path.exists() for path in (*stage.writes, *stage.fetches))
        return done if done is not None and is_there else None

    def is_done(self, stage: Stage) -> bool:
        """Whether a stage was finished with its current commands, and no stage that it reads from was redone
        since."""
        done = self.of(stage)
        if done is None or done.key != stage.key:
            return False
        before = [self._stages[name] for name in stage.after if name in self._stages]
        return all(each.ended <= done.ended for each in before)

    def add(self, stage: Stage, seconds: float) -> None:
        """Record a finished stage. Raises RunError."""
        self._stages[stage.name] = Done(stage.name, stage.key, round(seconds, 1), time.time())
        text = json.dumps([asdict(done) for done in self._stages.values()], indent=1) + "\n"
        with writing_file(self._path):
            write_atomically(self._path, text)


def check_same(stages: Sequence[Stage], record: Record) -> None:
    """Raise RunError for a stage that was finished with other settings: later stages would mix both."""
    for stage in stages:
        done = record.of(stage)
        # A stage that only fetches and prepares is done again: it leaves what is there.
        if stage.writes and done is not None and done.key != stage.key:
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
    for number, stage in enumerate(stages, start=1):
        head = f"[{number}/{len(stages)}] {stage.name}: {stage.does}"
        if record.is_done(stage):
            print(f"{head}: already done", flush=True)
            continue
        print(head, flush=True)
        for line in shown(stage.commands):
            print(f"    {line}", flush=True)
        began = time.monotonic()
        _write_settings(stage)
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        ends = [f"-{number + 1}" for number in range(len(stage.commands))]
        logs = [folder / "logs" / f"{stage.name}{end}.log" for end in (ends if len(ends) > 1 else [""])]
        started = 0
        failures: list[tuple[Path, RunError]] = []
        for commands in stage.waves():
            try:
                _run(stage, commands, logs[started : started + len(commands)])
            except RunError as error:
                failures.append((logs[started], error))
                if not stage.runs_all:
                    break
            started += len(commands)
        if failures:
            others = ", ".join(str(log) for log, _ in failures[1:])
            also = f"; also failed: {others}" if others else ""
            raise RunError(f"{failures[0][1]}{also}{_way_on(stage, stages[number:])}") from failures[0][1]
        missing = [path for path in stage.writes if not path.exists()]
        if missing:
            raise RunError(
                f"stage {stage.name!r} ended without an error, but {missing[0]} is missing; see its "
                f"output in {logs[0]}"
            )
        record.add(stage, time.monotonic() - began)
        print(f"    {stage.name} took {(time.monotonic() - began) / 60:.1f} min", flush=True)


def _way_on(stage: Stage, rest: Sequence[Stage]) -> str:
    """How to continue without a stage that only checks and prepares: a benchmark whose videos are no longer
    published is never complete."""
    later = next((each.kind for each in rest if each.kind != stage.kind), "")
    if stage.writes or not later:
        return ""
    return f"; to continue without the missing files, add --start {later}"


def _write_settings(stage: Stage) -> None:
    for command in stage.commands:
        if command.file is None:
            continue
        text = f"# {command}\n" + yaml.safe_dump(
            dict(command.settings or {}), sort_keys=False, allow_unicode=True
        )
        with writing_file(command.file):
            command.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(command.file, text)


def _run(stage: Stage, commands: Sequence[Command], logs: Sequence[Path]) -> None:
    """Run commands at once, and wait for all. The first one's output is shown."""
    with ExitStack() as stack:
        running = []
        for number, (command, log) in enumerate(zip(commands, logs, strict=True)):
            # Of an earlier attempt, what it said is kept. Unbuffered: what a full disk refused is not tried
            # again when the file is closed.
            file = stack.enter_context(log.open("ab", buffering=0))
            process = subprocess.Popen(
                command.argv,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # With what it starts: accelerate's launcher ends at a signal, and leaves its training alone.
                process_group=0,
            )
            stack.callback(_end, process)
            unwritten = list[OSError]()
            copying = (process, file, number == 0, unwritten)
            copier = threading.Thread(target=_copy, args=copying, daemon=True)
            copier.start()
            running.append((command, process, copier, log, unwritten))
        for _, process, copier, _, _ in running:
            process.wait()
            copier.join()
    failed = [each for each in running if each[1].returncode]
    if failed:
        command, process, _, log, _ = failed[0]
        raise RunError(
            f"stage {stage.name!r} failed (status {process.returncode}); see its output in {log}; its "
            f"command was: {command}\nthe stages before it are finished; re-run the same command to resume"
        )
    for _, _, _, log, unwritten in running:
        if unwritten:
            raise RunError(cannot_write(log, unwritten[0]))


def _copy(process: subprocess.Popen[bytes], log: IO[bytes], shows: bool, unwritten: list[OSError]) -> None:
    """Copy a command's output to its log, and to the terminal, as it arrives. Where that fails (a full disk,
    a reader that has gone), the rest is read all the same, because the command would wait for it; the error
    of the log goes into `unwritten`."""
    assert process.stdout is not None
    while data := os.read(process.stdout.fileno(), 65536):
        try:
            if not unwritten:
                log.write(data)
        except OSError as error:
            unwritten.append(error)
        try:
            if shows:
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
        except OSError:
            shows = False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a command and what it started end as by Ctrl-C, so that what was done is saved. SIGTERM, since a
    shell without a terminal has those that it starts in the background ignore SIGINT."""
    if process.poll() is not None:
        return
    deadline = time.monotonic() + _PATIENCE
    os.killpg(process.pid, signal.SIGTERM)
    while _is_running(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
        process.poll()
    if _is_running(process.pid):
        with suppress(ProcessLookupError):  # it has just gone
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_running(group: int) -> bool:
    """Whether any process of a group still runs. A process that has ended may stay in the group forever if no
    process waits for it, so asking the kernel for the group is not enough."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of, *_ = file.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has just gone
        if int(of) == group and state not in "ZX":
            return True
    return False
