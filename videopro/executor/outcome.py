"""What a program may use, and what came of it. Plain records; knows nothing of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from videopro.errors import VideoProError


class SandboxError(VideoProError):
    """Programs cannot be run here safely, or the machinery around them broke. Never a program's own fault."""


class SandboxMissing(SandboxError):
    """This machine has nothing to confine programs with: no Linux, no known processor, or no seccomp."""


class WallBreached(SandboxError):
    """The self-test got through a wall, or found one that cannot be raised: programs must not run here."""


class ZygoteGone(SandboxError):
    """The process that starts programs died, and the program with it."""


@dataclass(frozen=True)
class Limits:
    """The budgets of one program. Each breach is a failure that says which and how much.

    A breach of processor time, wall time, output, calls or frames is what came of the program, whatever it
    catches: `except Exception` does not catch it, and one that a bare `except` swallows counts all the same.
    An oversized argument is an exception at the call (TooLarge), memory a MemoryError: a
    program may catch these two and do with less.
    """

    cpu_seconds: float = 5.0
    """Processor time of the program itself."""
    wall_seconds: float = 30.0
    """Time from the first line to the result, less what the host's functions themselves take. What the host
    spends on reading and answering its messages counts."""
    memory_bytes: int = 256 << 20
    """Address space beyond what an empty program has."""
    output_bytes: int = 64 << 10
    """Characters printed in all."""
    calls: int = 256
    """Calls of the host's functions."""
    frames: int = 8192
    """Frames that those functions touch, as they report with `use_frames`."""
    argument_bytes: int = 1 << 20
    """JSON of one call's arguments, and of what the program returns."""
    result_bytes: int = 4 << 20
    """JSON of one call's result."""
    error_bytes: int = 4 << 10
    """Characters of an exception's message; a longer one is cut."""
    items: int = 10_000
    """Values in one call's arguments or in the program's result, containers counted with their parts."""
    depth: int = 32
    """Containers within containers."""
    source_bytes: int = 64 << 10
    """The program's text."""
    log_chars: int = 4000
    """The log for the refinement prompt."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be above 0, not {value!r}.")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class ProgramError:
    """Why a program failed. `type`: the exception's class, or the budget's name (CpuLimit, CallLimit,
    ...).
    """

    type: str
    message: str
    line: int | None = None
    """The program's line, from 1."""
    source: str = ""
    """That line's text."""


@dataclass(frozen=True)
class ModuleCall:
    """One call of a host function. Its values as short text, such as `Clip(start=10.0, end=20.0)`."""

    fn: str
    args: str
    result: str
    seconds: float
    error: str | None = None
    """The exception that the function raised, or why its result did not reach the program."""
    line: int | None = None
    """The program's line that made the call."""


@dataclass(frozen=True)
class Outcome:
    """What came of one program."""

    status: Literal["ok", "failed", "empty"]
    """"empty": it returned None, a blank string or an empty container."""
    value: Any = None
    """Plain data and the host's own objects; None unless "ok" or "empty"."""
    error: ProgramError | None = None
    log: str = ""
    """For the refinement prompt: what went wrong and where, the calls so far. Safe to put into a prompt."""
    calls: tuple[ModuleCall, ...] = ()
    seconds: float = 0.0
    """Wall time, host functions included."""
    cpu_seconds: float = 0.0
    """Processor time of the program's process."""
    peak_bytes: int = 0
    """The most memory that its process had resident, the interpreter's own few MiB included."""
    output: str = ""
    """What it printed."""
