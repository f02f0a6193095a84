"""A program of the pocket teacher with its plan, and what writes its text."""

from __future__ import annotations

import ast
import builtins
import json
from dataclasses import dataclass
from functools import lru_cache

from videopro.executor import parse_python

HEAD = "def execute_command(video, question):\n"
WHICH = "Which place is this?"


@dataclass(frozen=True)
class ProgramVariant:
    """A program with the plan that goes with it."""

    planning: str
    code: str

    @property
    def reply(self) -> str:
        """The whole reply."""
        return f"<planning>\n{self.planning}\n</planning>\n<code>\n{self.code}\n</code>"

    @property
    def modules(self) -> frozenset[str]:
        """Names of the modules that the program calls: every name that it calls and Python does not
        define."""
        return _called(self.code)


@lru_cache(maxsize=4096)
def _called(code: str) -> frozenset[str]:
    nodes = ast.walk(parse_python(code))
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return frozenset(called - set(dir(builtins)))


def quote(value: str) -> str:
    """A text as a literal of a program."""
    return json.dumps(value, ensure_ascii=False)


def program(body: str) -> str:
    """The whole function with this body."""
    return HEAD + "\n".join(f"    {line}" if line else "" for line in body.strip("\n").split("\n"))
