"""The log of a failed or doubtful program, as the refinement prompt shows it (Fig. 11: "Runtime error log").

It contains the error's type and message, the program's own lines, the calls made so far, and the output. A
hostile program may have chosen any of this text, so it is sanitized and bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro.executor.text import harmless, shorten

ErrorReport = tuple[str, str, Sequence[tuple[int, str]]]
"""An exception: its type, its message, and the program's (line, function)s, outermost first."""

_MOST_CALLS = 20


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
    call_lines = []
    if calls:
        call_lines.append("calls so far:")
        left_out = len(calls) - _MOST_CALLS
        for number, call in enumerate(calls, 1):
            # The first calls show what the program looked for, the last ones what went wrong.
            if left_out > 0 and _MOST_CALLS // 2 < number <= _MOST_CALLS // 2 + left_out:
                if number == _MOST_CALLS // 2 + 1:
                    call_lines.append(f"  ({left_out} more)")
                continue
            call_lines.append(f"  {call}")
    elif raised:
        call_lines.append("no module was called")
    printed = (
        ["printed:", *(f"  {line}" for line in shorten(output, 500).splitlines())] if output.strip() else []
    )
    # The error first and in full: calls and output are what is cut.
    first = shorten(harmless("\n".join(error)), most)
    details = harmless("\n".join([*call_lines, *printed]))
    return shorten("\n".join(part for part in (first, details) if part), most)


def shown_call(fn: str, arguments: str, ended: str, line: int | None) -> str:
    """A call as a line of the log. `ended`: what it gave or raised."""
    where = f"line {line}: " if line else ""
    return f"{where}{fn}({arguments}) {ended}"


def _position(source: Sequence[str], line: int, function: str) -> str:
    where = f"in {function}" if function and function != "<module>" else "at the top level"
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return f"  line {line}, {where}: {shorten(text, 200)}" if text else f"  line {line}, {where}"
