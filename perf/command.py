"""How a script of perf/ runs as a command: `python -m perf.NAME`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from videopro.cli import CommandLine, exit_status

T = TypeVar("T")


def run_command(
    command: CommandLine[T],
    work: Callable[[T], int | None],
    stopped: str = "stopped; nothing was recorded",
) -> NoReturn:
    """Do the work with the settings of this process's command line, and exit with the status that it returns
    (None: 0). `stopped`: what is printed when a signal ends it."""
    with exit_status(stopped) as status:
        status.code = work(command.parse()) or 0
    sys.exit(status.code)
