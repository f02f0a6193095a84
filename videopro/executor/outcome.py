"""Plain records: the limits of a program, and the outcome of running it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from videopro.errors import Failure, VideoProError
from videopro.executor.log import ErrorReport, compose_log, harmless
from videopro.storage import DIGITS, PROGRAM_BYTES, PROGRAM_DEPTH, PROGRAM_VALUES


class SandboxError(VideoProError):
    """Programs cannot be run safely here, or the sandbox itself failed. Never the program's fault."""


class SandboxMissing(SandboxError):
    """This machine cannot confine programs: it lacks Linux, a supported processor, or seccomp."""


# Monty ran two thirds of ordinary programs where the kernel has no seccomp. Whoever installed it for that
# learns here why the same command is now refused.
WITHOUT_PROGRAMS = (
    "Use a machine whose Linux kernel has seccomp, or a method that runs no programs (--method native); the "
    "extra monty, which ran a part of them, is gone."
)
"""What a user does on a machine that cannot confine programs."""


class SandboxUnsafe(SandboxError):
    """The self-test escaped the sandbox, or a restriction cannot be applied: programs must not run here."""


class ZygoteGone(SandboxError):
    """The process that starts programs died, and the program with it."""


@dataclass(frozen=True)
class Limits:
    """The budgets of one program. A breach is a failure that says which budget and how much.

    A breach of processor time, wall time, module time, output, calls or frames decides the outcome, whatever
    the program catches: `except Exception` does not catch it, and it counts even if a bare `except` swallows
    it. An oversized argument raises TooLarge at the call, memory a MemoryError; a program may catch these two
    and continue with less.
    """

    cpu_seconds: float = 5.0
    """CPU time of the program itself."""
    wall_seconds: float = 30.0
    """Time from the first line to the result, without the time spent in host functions. The host's time for
    reading and answering messages counts."""
    module_seconds: float = 1800.0
    """Time in host functions, over all calls. A call is not interrupted, so that the last one may take
    longer: its arguments bound it."""
    memory_bytes: int = 256 << 20
    """Address space beyond that of an empty program."""
    output_bytes: int = 64 << 10
    """Characters printed in total."""
    calls: int = 256
    """Calls of the host's functions."""
    frames: int = 8192
    """Frames that those functions use, as reported with `use_frames`."""
    argument_bytes: int = PROGRAM_BYTES
    """JSON of one call's arguments, and of the program's result."""
    result_bytes: int = 4 << 20
    """JSON of one call's result."""
    error_bytes: int = 4 << 10
    """Characters of an exception's message; a longer one is cut."""
    items: int = PROGRAM_VALUES
    """Values in one call's arguments or in the program's result, counting containers and their parts."""
    depth: int = PROGRAM_DEPTH
    """Containers within containers."""
    digits: int = DIGITS
    """Digits of an integer."""
    source_bytes: int = 64 << 10
    """The program's text."""
    log_chars: int = 4000
    """Characters of the log for the refinement prompt."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            # Not `<= 0`, which NaN would pass.
            if not value > 0:
                raise ValueError(f"{name} must be above 0, not {value!r}.")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Outcome:
    """The outcome of one program."""

    status: Literal["ok", "failed", "empty"]
    """"empty": it returned None, a blank string or an empty container."""
    value: Any = None
    """Plain data and host objects; None unless "ok" or "empty"."""
    error: Failure | None = None
    log: str = ""
    """For the refinement prompt: what went wrong, where, and the calls so far. Safe to put into a prompt. The
    error of a failed program has it too."""
    calls: tuple[str, ...] = ()
    """Its calls of host functions as the log shows them: `line 2: look('a dog') gave Clip(start=10.0)`. The
    functions themselves keep whatever else is to be known of them."""
    seconds: float = 0.0
    """Wall time, host functions included."""
    cpu_seconds: float = 0.0
    """Processor time of the program's process."""
    peak_bytes: int = 0
    """The peak resident memory of its process, including the interpreter's own few MiB."""
    output: str = ""
    """What it printed."""


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
