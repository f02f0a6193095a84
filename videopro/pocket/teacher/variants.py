"""A program of the pocket teacher with its plan, and the templates of such programs."""

from __future__ import annotations

import ast
import builtins
import json
from dataclasses import dataclass
from functools import lru_cache

from videopro.executor import parse_python
from videopro.pocket.teacher.reading import ParsedQuestion

HEAD = "def execute_command(video, question):\n"


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


@dataclass(frozen=True)
class Way:
    """Templates of a plan and of a program's body. In braces stand the question's words, as literals of a
    program (see `_words`); braces of the program itself are doubled."""

    planning: str
    body: str

    def write(self, reading: ParsedQuestion) -> ProgramVariant:
        """The program for a question."""
        words = _words(reading)
        return ProgramVariant(self.planning.format_map(words), program(self.body.format_map(words)))


def program(body: str) -> str:
    """The whole function with this body."""
    return HEAD + "\n".join(f"    {line}" if line else "" for line in body.strip("\n").split("\n"))


def after_and_before(planning: str, body: str, **differs: tuple[str, str]) -> dict[str, tuple[Way, ...]]:
    """The way for what comes after a scene and that for what comes before it: `<name>` in the body, and in
    the plan, stands for the first or the second of the texts."""
    ways: dict[str, tuple[Way, ...]] = {}
    for number, kind in enumerate(("after", "before")):
        texts = [planning, body]
        for name, words in differs.items():
            texts = [text.replace(f"<{name}>", words[number]) for text in texts]
        ways[kind] = (Way(*texts),)
    return ways


def _words(r: ParsedQuestion) -> dict[str, str]:
    quoted = {
        "subject": r.subject,
        "the_place": r.the_place,
        "is_place": f"Is this the {r.place}?",
        "at_place": f"a scene at the {r.place}",
        "the_sign": f"the sign at the {r.place}",
        "named": r.named,
        "the_thing": f"The {r.thing} ",
        "is_thing": f"Is the {r.thing} {{choice}}?",
        "line": r.line,
        "text": r.text,
        "which": "Which place is this?",
    }
    plain = {"kind": r.kind, "place": r.place, "letters": '"ABCDEFGH"'}
    return plain | {name: json.dumps(value, ensure_ascii=False) for name, value in quoted.items()}
