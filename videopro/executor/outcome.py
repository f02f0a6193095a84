"""The limits of a program, its outcome, and the log that the refinement prompt shows (Fig. 11: "Runtime error
log"): the error's type and message, the program's own lines, the calls made so far, and the output.

A hostile program may have chosen any of this text, so it is sanitized and bounded: nothing is left that chat
templates or JSON interpret.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from videopro.errors import Failure, VideoProError
from videopro.storage import DIGITS, PROGRAM_BYTES, PROGRAM_DEPTH, PROGRAM_VALUES


class SandboxError(VideoProError):
    """Programs cannot be run safely here, or the sandbox itself failed. Never the program's fault."""


class SandboxMissing(SandboxError):
    """This machine cannot confine programs: it lacks Linux, a supported processor, or seccomp."""


WITHOUT_PROGRAMS = (
    "Use a machine whose Linux kernel has seccomp, or a method that runs no programs (--method native)."
)
"""The advice for a machine that cannot confine programs."""


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
    """Time in host functions, over all calls. Calls are not interrupted, so the last one may take longer; its
    arguments bound it."""
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
    functions keep all other details."""
    seconds: float = 0.0
    """Wall time, host functions included."""
    cpu_seconds: float = 0.0
    """Processor time of the program's process."""
    peak_bytes: int = 0
    """The peak resident memory of its process, including the interpreter's own few MiB."""
    output: str = ""
    """Its printed output."""


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
        # A program can compile its own code under any line number.
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


# Marks of tokenizers and chat templates: <|im_end|>, </s>, <video>, <start_of_turn>, [INST], <<SYS>>.
_ANGLE_MARK = re.compile(r"<(?=<?[/|｜!]?[^\s<>]{1,60}>)")
_SQUARE_MARK = re.compile(r"\[(?=/?[A-Z_]{2,30}\])")
# Control characters except newline and tab, direction marks, invisible characters, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff0-\ufffb]"
)


def harmless(text: str) -> str:
    """The text without control characters and lone surrogates; chat template marks are broken by a space."""
    if text.isprintable() and "<" not in text and "[" not in text:  # Most texts: skip the rest.
        return text
    text = _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    # Broken rather than removed: what a removal leaves behind can form a mark again.
    return _SQUARE_MARK.sub("[ ", _ANGLE_MARK.sub("< ", text))


def shorten(text: str, most: int) -> str:
    """At most `most` characters; a cut end is replaced by an ellipsis."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def brief(value: Any, describe: Callable[[Any], str], most: int = 200) -> str:
    """A value as one line of at most about `most` characters. `describe` renders what is not plain data.

    Takes time proportional to the text, not to the value.
    """
    parts: list[str] = []
    room = most

    def add(text: str) -> None:
        nonlocal room
        parts.append(text)
        room -= len(text)

    def show(value: Any) -> None:
        kind = type(value)
        if kind is str:
            # Cut first: the repr of a text of megabytes would be made for a line of 200 characters.
            add(repr(value if len(value) <= room else value[:room]))
        elif kind is float:
            add(f"{value:.6g}")
        elif value is None or kind is bool or kind is int:
            add(repr(value))
        elif kind not in _BRACKETS:
            add(describe(value))
        else:
            show_parts(value, *_BRACKETS[kind])

    def show_parts(values: Any, start: str, end: str) -> None:
        nonlocal room
        parts.append(start)
        room -= 2  # With the end, which is there however little room is left.
        for number, item in enumerate(values):
            if number:
                add(", ")
            if room <= 0:
                parts.append("…")
                break
            show(item)
            if type(values) is dict:
                add(": ")
                show(values[item])
        # As Python writes it: without the comma it would be a value in brackets.
        if type(values) is tuple and len(values) == 1:
            parts.append(",")
        parts.append(end)

    show(value)
    return shorten("".join(parts), most)


_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
}


ErrorReport = tuple[str, str, Sequence[tuple[int, str]]]
"""An exception: its type, its message, and the program's (line, function)s, outermost first."""

# Calls that a log shows of the beginning, and of the end.
_CALLS_EACH = 10


def compose_log(
    source: Sequence[str], raised: Sequence[ErrorReport], calls: Sequence[str], output: str, most: int
) -> str:
    """Compose the log. `source`: the program's lines. `raised`: the exception, then its causes. `calls`:
    as `shown_call` shows them."""
    error = []
    for number, (kind, message, positions) in enumerate(raised):
        if number:
            error.append("which came from:")
        error.append(f"{kind}: {message}" if message else kind)
        error.extend(_position(source, line, function) for line, function in positions)
    shown = list(calls)
    if len(calls) > 2 * _CALLS_EACH:
        # The first calls show what the program looked for, the last ones what went wrong.
        shown[_CALLS_EACH:-_CALLS_EACH] = [f"({len(calls) - 2 * _CALLS_EACH} more)"]
    about = ["calls so far:", *(f"  {call}" for call in shown)] if shown else []
    if raised and not shown:
        about = ["no module was called"]
    if output.strip():
        about += ["printed:", *(f"  {line}" for line in shorten(output, 500).splitlines())]
    # The error first and in full: calls and output are what is cut.
    first = shorten(harmless("\n".join(error)), most)
    details = harmless("\n".join(about))
    return shorten("\n".join(part for part in (first, details) if part), most)


def shown_call(fn: str, arguments: str, ended: str, line: int | None) -> str:
    """A call as a line of the log. `ended`: what it gave or raised."""
    where = f"line {line}: " if line else ""
    return f"{where}{fn}({arguments}) {ended}"


def _position(source: Sequence[str], line: int, function: str) -> str:
    where = f"in {function}" if function and function != "<module>" else "at the top level"
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return f"  line {line}, {where}: {shorten(text, 200)}" if text else f"  line {line}, {where}"
