"""Describe an exception of a program: type, message, the program's own lines, and a hint if there is one.

Runs in the program's process after the program has ended. Its result can be forged, and the host treats it
accordingly.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from .allowed import FILE, IMPORTABLE_MODULES
from .handle import Handle

# difflib compares with every name; more than these take too long.
_MOST_NAMES = 750
_LONGEST_NAME = 60
_DEF = re.compile(r"(\s*)(?:async\s+)?def\s+(\w+)")


def describe_error(
    error: BaseException, limits: Mapping[str, Any], source: str, entered: FrameType | None
) -> list[list[Any]]:
    """An exception and what caused it: [type, message, [[line, function], ...]] each, the last raised
    first. `entered`: the frame of the program that was entered first, for errors that have no traceback.
    """
    reports: list[list[Any]] = []
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and len(reports) < 3 and current not in seen:
        seen.append(current)
        message = _message(current)[: limits["error_bytes"]]
        if isinstance(current, MemoryError) and not message:
            message = f"the program may use {limits['memory_bytes'] >> 20:,} MiB"
        positions = _positions(current, source)
        if isinstance(current, MemoryError) and not positions and entered is not None:
            positions = [[entered.f_lineno, entered.f_code.co_name]]
        reports.append([type(current).__name__, message, positions])
        # `raise ... from None` hides where an error came from, as in CPython's own tracebacks.
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return reports


def _message(error: BaseException) -> str:
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0]
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error) + _hint(error)
    except Exception:
        return ""


def _hint(error: BaseException) -> str:
    """A suggestion for a missing name, worded as in CPython's own tracebacks."""
    name: Any = getattr(error, "name", None)
    if type(name) is not str or len(name) > _LONGEST_NAME:
        return ""
    if isinstance(error, NameError):
        frame = _last_frame(error.__traceback__)
        if frame is None:
            return ""
        names_in_scope = {*frame.f_locals, *frame.f_globals, *frame.f_builtins}
        if name in names_in_scope:
            return ""
        # The classes of handles are no help: `frames` is not meant to be Frame.
        names_in_scope -= {other for other, value in frame.f_globals.items() if _is_handle_class(value)}
        if name in IMPORTABLE_MODULES:
            return f". Did you forget to import {name!r}?"
        return _nearest(name, names_in_scope)
    if isinstance(error, AttributeError) and error.obj is not None:
        return _nearest(name, dir(error.obj))
    return ""


def _is_handle_class(value: Any) -> bool:
    return type(value) is type and issubclass(value, Handle)


def _nearest(name: str, candidates: Iterable[Any]) -> str:
    names = [
        other for other in candidates if type(other) is str and other.startswith("_") == name.startswith("_")
    ]
    near = difflib.get_close_matches(name, names[:_MOST_NAMES], n=1, cutoff=0.7)
    return f". Did you mean: {near[0]!r}?" if near else ""


def _last_frame(trace: TracebackType | None) -> FrameType | None:
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame


def _positions(error: BaseException, source: str) -> list[list[Any]]:
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
        return [[line, _function_at(source, line)]]
    positions: list[list[Any]] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == FILE:
            positions.append([trace.tb_lineno, code.co_name])
        trace = trace.tb_next
    # A deep recursion repeats its lines: how it began and how it ended are enough.
    return positions if len(positions) <= 10 else [*positions[:5], *positions[-5:]]


def _function_at(source: str, line: int) -> str:
    """The function around a line of source that does not parse, found by indentation; "" if there is none."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:line]
    margin = 1 << 30
    for number, text in enumerate(reversed(lines)):
        text = text.expandtabs()
        indent = len(text) - len(text.lstrip())
        if indent == len(text) or indent >= margin:
            continue
        margin = indent
        head = _DEF.match(text)
        # The line itself may be the head of a function, and is then not inside it.
        if head is not None and number > 0:
            return head[2]
        if margin == 0:
            break
    return ""
