"""Whether a program could tell a replay from a run: by a clock, by chance, or by what lies outside it.

A replay gives a program the same values as its run, so a program that computes with these alone cannot know
which of the two it is in. One that could know might answer a constant in a run and, in a replay, let its
letter depend on its calls. No such program is replayed. This is a check of names: what it lets through can
still be caught by the replays without a change (`videopro.methods.program.deciding`), and the sandbox
confines it like any other.
"""

from __future__ import annotations

import ast

from videopro.executor import REPLY, parse_python

_TELLING_MODULES = frozenset(
    ("time", "datetime", "calendar", "random", "logging", "warnings", "traceback", "io", "contextlib")
)
"""Modules that a program may import that have a clock or chance, or lead to the interpreter's state."""
_TELLING_ATTRIBUTES = frozenset(
    (
        *("sys", "os", "builtins", "bltns", "modules", "inspect", "importlib", "linecache", "threading"),
        *("random", "datetime", "logging", "warnings", "traceback", "SystemRandom", "now", "today", "utcnow"),
        *("attrgetter", "methodcaller", "cache_info", "tb_frame", "gi_frame", "f_back", "f_globals"),
    )
)
"""What leads there from a value: modules of the standard library hold each other, as `statistics.random`. Not
`time`, which frames have; no other allowed module holds that one."""
_TELLING_NAMES = frozenset(("vars", "globals", "locals", "dir", "id"))
"""Builtins by which names are reached that are not written down, and addresses."""
_BY_NAME = frozenset(("getattr", "setattr", "hasattr", "delattr"))


def tells_replays(code: str) -> str:
    """What in a program could tell a replay from a run; "" if nothing. `code`: a program that ran."""
    try:
        nodes = list(ast.walk(parse_python(code, REPLY)))
    except (SyntaxError, ValueError, MemoryError, RecursionError, SystemError):
        # It compiled in its own process, and its tree is still too deep for this one: nothing is known of it.
        return "syntax that cannot be read"
    # getattr(clip, "start", 0) names what it reads.
    plain = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _names_its_attribute(node)}
    for node in nodes:
        for name in _names(node):
            if _is_telling(node, name) and id(node) not in plain:
                return name
    return ""


def _names(node: ast.AST) -> list[str]:
    """The names by which a node reaches something."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0], *(alias.name for alias in node.names)]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def _is_telling(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return name in _TELLING_NAMES or name in _BY_NAME or name.startswith("__")
    is_telling = name in _TELLING_ATTRIBUTES or name == "*" or (name.startswith("_") and name != "__future__")
    return is_telling or (not isinstance(node, ast.Attribute) and name in _TELLING_MODULES)


def _names_its_attribute(call: ast.Call) -> bool:
    if not (isinstance(call.func, ast.Name) and call.func.id in _BY_NAME and len(call.args) > 1):
        return False
    name = call.args[1]
    return (
        isinstance(name, ast.Constant)
        and isinstance(name.value, str)
        and not name.value.startswith("_")
        and name.value not in _TELLING_ATTRIBUTES
    )
