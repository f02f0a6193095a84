"""The names in a program's syntax tree: required parameters, and calls of names that it does not define.

Scopes are not distinguished: a name that is bound anywhere counts as bound.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator


def required(function: ast.FunctionDef) -> tuple[str, ...]:
    """The parameters that have no default."""
    arguments = function.args
    plain = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    plain = plain[: len(plain) - len(arguments.defaults)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*plain, *(argument.arg for argument, default in named if default is None))


def calls(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """Names that are called and that neither the tree of these nodes nor Python defines, each once, in source
    order."""
    known = set(dir(builtins))
    called = []
    for node in nodes:
        known.update(_bound(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.append(node.func)
    # The nodes come level by level.
    called.sort(key=lambda name: (name.lineno, name.col_offset))
    return tuple(dict.fromkeys(name.id for name in called if name.id not in known))


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, in whatever scope."""
    found: str | None = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        found = node.id
    elif isinstance(node, ast.arg):
        found = node.arg
    elif isinstance(node, ast.alias):
        found = node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.MatchMapping):
        found = node.rest
    elif isinstance(
        node,
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
    ):
        found = node.name
    if found is not None:
        yield found
