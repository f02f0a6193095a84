"""A program's listing in the viewer: highlighted tokens line by line, the changes of a refinement, and the
line of each call. The text comes from a model, so it is split into tokens and never rendered as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Literal

from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from videopro.executor import MAX_CHARS
from videopro.traces import Call

Tokens = list[tuple[str, str]]
"""(colour class, text) of one line; see `_CLASSES`."""

# The first match counts. Single letters, because they are repeated for every token of every program.
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
"""The class of a module's name."""


@dataclass(frozen=True)
class ListingLine:
    """A line of a listing. `number` is the line number in the program that ran, from 1; None for a line that
    the refinement removed."""

    tokens: Tokens
    number: int | None
    mark: Literal["", "+", "-"] = ""


def highlight(code: str, modules: frozenset[str] = frozenset()) -> list[Tokens]:
    """The tokens of each line; joined, they are the line. A text too long for a program is not
    highlighted."""
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


# A program is listed by itself and again in the diff of its refinement, and many programs are equal.
@lru_cache(maxsize=256)
def _tokens(code: str) -> list[tuple[str, str, bool]]:
    """(colour class, text, whether it is a name)."""
    # Unprocessed: the lexer's normalization would move lines.
    tokens = _LEXER.get_tokens_unprocessed(code)
    return [(_class(kind), text, kind in Name) for _, kind, text in tokens]


@cache
def _class(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


def _append(line: Tokens, name: str, text: str) -> None:
    if line and line[-1][0] == name:
        line[-1] = (name, line[-1][1] + text)
    else:
        line.append((name, text))


def listing(code: str, before: str | None = None, modules: frozenset[str] = frozenset()) -> list[ListingLine]:
    """The lines of a program. With `before`, the program that it refines, new lines are marked "+", and
    removed lines are included with "-"."""
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


def lines_of_calls(code: str, calls: Sequence[Call]) -> list[int | None]:
    """The line of each call; None if it has none in this code."""
    last = code.count("\n") + 1
    return [call.line if call.line is not None and 1 <= call.line <= last else None for call in calls]
