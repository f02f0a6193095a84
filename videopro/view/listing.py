"""A program as the viewer lists it: coloured tokens line by line, what a refinement changed, whose line made
which call.

Everything here is text of a model's: it is cut into pieces, never into markup. Knows programs as text and
the calls of traces.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Literal

from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from videopro.program import MAX_CHARS
from videopro.traces import Call

Tokens = list[tuple[str, str]]
"""(colour class, text) of one line; see `_CLASSES`."""

# The first that fits counts. One letter each: they are repeated for every word of every program.
_CLASSES = (
    (Comment, "c"),
    (String.Doc, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Builtin, "b"),
)
_LEXER = PythonLexer()
MODULE = "m"
"""The class of a name that was called as a module."""


@dataclass(frozen=True)
class ListingLine:
    """A line of a listing. `number` counts the lines of the program that ran, from 1; None for a line that
    the refinement took out."""

    tokens: Tokens
    number: int | None
    mark: Literal["", "+", "-"] = ""


def highlight(code: str, modules: frozenset[str] = frozenset()) -> list[Tokens]:
    """The tokens of each line. Joined, they are the line; a text too long for a program has no colours."""
    if len(code) > MAX_CHARS:
        return [[("", line)] for line in code.split("\n")]
    lines: list[Tokens] = [[]]
    for kind, text, is_name in _tokens(code):
        name = MODULE if is_name and text in modules else kind
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                _append(lines[-1], name, part)
    return lines


# A program is listed by itself and again as what its refinement changed, and many are the same.
@lru_cache(maxsize=256)
def _tokens(code: str) -> list[tuple[str, str, bool]]:
    """(colour class, text, whether it is a name)."""
    # Unprocessed: the lexer's own tidying would move lines.
    found = _LEXER.get_tokens_unprocessed(code)
    return [(_class(kind), text, kind in Name) for _, kind, text in found]


@cache
def _class(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


def _append(line: Tokens, name: str, text: str) -> None:
    if line and line[-1][0] == name:
        line[-1] = (name, line[-1][1] + text)
    else:
        line.append((name, text))


def listing(code: str, before: str | None = None, modules: frozenset[str] = frozenset()) -> list[ListingLine]:
    """The lines of a program; with the program that it refines, marked as new or the same, and with the lines
    that are gone where they were."""
    new = highlight(code, modules)
    if before is None:
        return [ListingLine(tokens, number) for number, tokens in enumerate(new, 1)]
    old = highlight(before, modules)
    lines: list[ListingLine] = []
    matcher = SequenceMatcher(None, before.split("\n"), code.split("\n"), autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        same = kind == "equal"
        if not same:
            lines += [ListingLine(tokens, None, "-") for tokens in old[a:b]]
        lines += [ListingLine(tokens, c + n, "" if same else "+") for n, tokens in enumerate(new[c:d], 1)]
    return lines


def lines_of_calls(code: str, calls: Sequence[Call]) -> list[tuple[int | None, bool]]:
    """For each call the line that made it, and whether that was found by the function's name.

    Traces of older runs, and those of programs run in Monty, have no lines. A function that the program names
    on one line only can have been called from nowhere else; for any other the line stays unknown.
    """
    last = code.count("\n") + 1
    named = _lines_by_name(code) if any(call.line is None for call in calls) else {}
    found: list[tuple[int | None, bool]] = []
    for call in calls:
        if call.line is not None:
            found.append((call.line if 1 <= call.line <= last else None, False))
        else:
            lines = named.get(call.fn, set())
            found.append((next(iter(lines)), True) if len(lines) == 1 else (None, False))
    return found


def _lines_by_name(code: str) -> dict[str, set[int]]:
    """Where each function is named. A name that is assigned elsewhere (`f = query_mc`) counts there too."""
    if len(code) > MAX_CHARS:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return {}
    lines: dict[str, set[int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            lines.setdefault(node.id, set()).add(node.lineno)
    return lines
