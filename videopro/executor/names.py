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
    # Defaults belong to the last parameters.
    plain = plain[: len(plain) - len(arguments.defaults)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*plain, *(argument.arg for argument, default in named if default is None))


def calls(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """Names that are called and that neither the tree of these nodes nor Python defines, each once, in source
    order."""
    bound = set(dir(builtins))
    called = []
    for node in nodes:
        bound.update(_bound(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.append(node.func)
    # The nodes come level by level.
    called.sort(key=lambda name: (name.lineno, name.col_offset))
    return tuple(dict.fromkeys(name.id for name in called if name.id not in bound))


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, in whatever scope."""
    name: str | None = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.alias):
        name = node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.MatchMapping):
        name = node.rest
    elif isinstance(
        node,
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
    ):
        name = node.name
    if name is not None:
        yield name
