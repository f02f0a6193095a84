"""How a script of perf/ runs as a command: `python -m perf.NAME`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from videopro.cli import CommandLine, exit_status

T = TypeVar("T")


def run_command(
    settings: type[T],
    work: Callable[[T], int | None],
    stopped: str = "stopped; nothing was recorded",
) -> NoReturn:
    """Do the work of the script with the settings of its command line, and exit with the status that it
    returns (None: 0). The docstring of `settings` is the summary of its help. `stopped`: what is printed when
    a signal ends it."""
    spec = sys.modules["__main__"].__spec__
    assert spec is not None, "scripts of perf/ run as modules"
    command = CommandLine(spec.name, settings, summary=settings.__doc__ or "")
    with exit_status(stopped) as status:
        status.code = work(command.parse()) or 0
    sys.exit(status.code)
