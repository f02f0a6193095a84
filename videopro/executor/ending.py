"""How a program ended, and the Outcome made from it. The same for every kind of sandbox."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from videopro.errors import Failure
from videopro.executor.log import ErrorReport, compose_log
from videopro.executor.outcome import Limits, Outcome
from videopro.executor.text import harmless


class Ending(NamedTuple):
    """How a program ended, before it becomes an Outcome."""

    value: Any
    raised: tuple[ErrorReport, ...]
    """The exception and its causes; empty if the program returned."""


class ResourceUse(NamedTuple):
    """Resources used by the program's process."""

    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def lines_of(program: str) -> list[str]:
    """A program's lines as Python counts them: it has three line endings, and str.splitlines ten."""
    return program.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def failure(kind: str, message: str, positions: Sequence[tuple[int, str]] = ()) -> Ending:
    """The ending of a program that failed. `positions`: (line, function)s of the program, outermost first."""
    return Ending(None, ((kind, message, positions),))


def too_long(program: str, limits: Limits) -> Ending | None:
    """The ending of a program whose text is too long, else None."""
    size = len(program.encode("utf-8", "surrogatepass"))
    if size <= limits.source_bytes:
        return None
    return failure("SourceLimit", f"the program has {size:,} bytes, more than {limits.source_bytes:,}")


def outcome(
    program: str,
    ending: Ending,
    limits: Limits,
    begun: float,
    calls: Sequence[str] = (),
    output: str = "",
    use: ResourceUse = ResourceUse(),  # noqa: B008 -- immutable
) -> Outcome:
    """The Outcome of an ending. `begun`: the monotonic time at which the run was requested."""
    lines = lines_of(program)
    output = harmless(output)
    log = compose_log(lines, ending.raised, calls, output, limits.log_chars)
    error = None
    if ending.raised:
        kind, message, positions = ending.raised[0]
        line = positions[-1][0] if positions else None
        # A program can compile code of its own under any line number.
        if line is not None and not 0 < line <= len(lines):
            line = None
        error = Failure(harmless(kind), harmless(message), line, log)
    return Outcome(
        status="failed" if error else "empty" if _blank(ending.value) else "ok",
        value=ending.value,
        error=error,
        log=log,
        calls=tuple(calls),
        seconds=time.monotonic() - begun,
        cpu_seconds=use.cpu_seconds,
        peak_bytes=use.peak_bytes,
        output=output,
    )


def _blank(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, (list, tuple, dict, set, frozenset)) and not value)
