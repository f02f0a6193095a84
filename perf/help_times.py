"""How many seconds of a processor --help of each command takes.

python -m perf.help_times                       writes perf/help_times.json
python -m perf.help_times --checkout FOLDER     of another checkout, such as an earlier commit's
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, recorded_rows, write_record
from videopro.cli import COMMANDS, CommandLine, setting


@dataclass(frozen=True)
class HelpSettings:
    """What is measured, and where the figures go."""

    commands: tuple[str, ...] = field(
        default=(), metadata=setting("names of commands; none: all", positional=True)
    )
    checkout: Path = field(default=ROOT, metadata=setting("the checkout whose commands are run"))
    output: Path = field(default=ROOT / "perf" / "help_times.json", metadata=setting("JSON file"))


COMMAND = CommandLine(
    "perf.help_times", HelpSettings, summary="Measure how long --help of each command takes."
)


def seconds(command: str, checkout: Path) -> float:
    """Seconds of a processor that `videopro COMMAND --help` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "videopro", *command.split(), "--help"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(request: HelpSettings) -> None:
    """Run each help and write the file."""
    same = {"cores": os.cpu_count()}
    commits = recorded_rows(request.output, "commits", same)
    figures = commits.setdefault(commit_of(request.checkout), {})
    for command in request.commands or COMMANDS:
        load = os.getloadavg()[0]
        took = seconds(command, request.checkout.resolve())
        figures[command] = {"cpu_s": round(took, 2), "load": round(load, 1)}
        print(f"{command}: {figures[command]}", flush=True)
    write_record(request.output, {**same, "commits": commits})


if __name__ == "__main__":
    run_command(COMMAND, measure)
