"""Extract a program from a planner's reply, check its form, and bring it into a canonical form.

A program is `def execute_command(video, question)` or, as planners trained elsewhere write it,
`execute_command(video_path, question, choices, duration)`, with helper functions and imports.
Nothing is executed or compiled. The format reward and the kind of refinement depend on the result; safety
does not (see `videopro.executor`). Module names are not known here: any name that a program calls and does
not define is taken for a module.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from videopro.executor.inside.allowed import FORBIDDEN_BUILTINS, IMPORTABLE_MODULES
from videopro.question import spoken

REPLY = "<reply>"
"""The file name of code that a model wrote. The parser warns of stray backslashes in it, which do not concern
the user, and are hidden by this name: a filter for the time of a parse would be one for all threads."""
warnings.filterwarnings("ignore", module=re.escape(REPLY))

_TRIES = 5
# Not a plain lock: the garbage collector can run Python code, and that a parse, in the thread that holds it.
_PARSING = threading.RLock()


def parse_python(code: str, file: str = "<unknown>") -> ast.Module:
    """`ast.parse`, for code that is parsed in several threads at once.

    CPython 3.11 and 3.12 count the depth of a tree in one place for all threads. If another thread gets the
    interpreter while a tree is made, sound code raises SystemError ("AST constructor recursion depth
    mismatch"; CPython issue 106905 has such reports). Here one thread parses at a time, and tries again when
    a parse outside this function came between. Raises what `ast.parse` raises, SystemError only if it stays.
    """
    for _ in range(_TRIES - 1):
        try:
            with _PARSING:
                return ast.parse(code, file)
        except SystemError:
            continue
    with _PARSING:
        return ast.parse(code, file)


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
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.append(node.func)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            # `import a.b` binds a.
            bound.add(node.asname or node.name.partition(".")[0])
        elif field := _BINDING.get(type(node)):
            # None where nothing is bound, as in `except ValueError:`.
            bound.add(getattr(node, field))
    # The nodes come level by level.
    called.sort(key=lambda name: (name.lineno, name.col_offset))
    return tuple(dict.fromkeys(name.id for name in called if name.id not in bound))


# The field with the name that a node binds, in whatever scope.
_BINDING = {
    ast.arg: "arg",
    ast.MatchMapping: "rest",
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), "name"),
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
}


ENTRY = "execute_command"
NATIVE_CALL = "query_native"
# They wrap an answer without looking at the video.
_WRAPPERS = {"make_result", "finalize_result", "normalize_model_result"}

MAX_CHARS = 64 << 10
"""A longer program is not parsed; ordinary ones have less than a hundredth of it."""
MAX_DEPTH = 80
"""Syntax nested deeper than this is not accepted: it is processed recursively."""


# Dunder names that a class may define and an expression may read.
_PLAIN_DUNDER = re.compile(
    "__(init|post_init|repr|str|len|iter|next|getitem|setitem|contains|eq|ne|lt|le|gt|ge|hash|bool|call|enter|exit"
    "|add|sub|mul|truediv|floordiv|mod|neg|slots|match_args|name|class|doc)__"
)
_REACHING = frozenset((*FORBIDDEN_BUILTINS, "__import__", "globals", "locals", "vars"))


@dataclass(frozen=True)
class Program:
    """The content of a reply."""

    planning: str
    """The text between the planning tags; blank without them."""
    code: str
    """The program to run; blank if the reply has none."""
    mode: Literal["native", "program"]
    """"native": a single `query_native` and no other module call. "program" if it cannot be parsed."""
    parameters: tuple[str, ...]
    """Parameter names of `execute_command`; empty without it."""
    required: tuple[str, ...]
    """Those of them that have no default."""
    calls: tuple[str, ...]
    """Names that it calls and that neither it nor Python defines: modules, or what it takes for them. Each
    once, in source order."""
    faults: tuple[str, ...]
    """What is wrong with the reply's form, in plain sentences; empty if it is well-formed."""

    @cached_property
    def canonical(self) -> str:
        """The program unparsed from its syntax tree, without comments, docstrings, annotations and layout.
        Programs with the same form do the same. A program that cannot be parsed or unparsed is kept as it
        is. Written when it is first asked for: answering questions needs none."""
        tree, nodes, _ = _tree(self.code)
        return self.code if tree is None else _canonical(tree, nodes, self.code)

    @property
    def well_formed(self) -> bool:
        """Whether the reply earns the format reward: both parts, and a program that could run."""
        return not self.faults

    @property
    def digest(self) -> str:
        """A key for caches: SHA-256 of the canonical form, in hexadecimal."""
        return hashlib.sha256(self.canonical.encode("utf-8", "surrogatepass")).hexdigest()


def parse_program(reply: str) -> Program:
    """Parse a reply. Never raises because of its content; takes time proportional to its length.

    The code is taken from `<code>` tags, else from a code fence, else from the first `def execute_command`
    onwards; a model's thinking is ignored. An unclosed tag or fence extends to the end.
    """
    planning, planned, body = _planning(_plain(reply))
    code, tagged = _code(body)
    faults = []
    if not planned:
        faults.append("There is no planning between <planning> and </planning>.")
    if not tagged:
        faults.append("The program is not between <code> and </code>.")
    tree, nodes, fault = _tree(code)
    if tree is None:
        return Program(planning, code, "program", (), (), (), (*faults, fault))
    entries = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == ENTRY]
    faults += _faults(nodes, entries)
    mode: Literal["native", "program"] = "native" if entries and _is_native(nodes) else "program"
    return Program(
        planning,
        code,
        mode,
        _parameters(entries[-1]) if entries else (),
        required(entries[-1]) if entries else (),
        calls(nodes),
        tuple(faults),
    )


def planning_text(reply: str) -> str:
    """The planning of a reply, as `parse_program` finds it, without parsing the program."""
    return _planning(_plain(reply))[0]


# ---- the parts of a reply ---------------------------------------------------------------------------------


def _plain(reply: str) -> str:
    """The reply with "\\n" as its only line ending, and without thinking."""
    return spoken(reply.replace("\r\n", "\n").replace("\r", "\n"))


def _between(text: str, tag: str) -> Iterator[tuple[str, bool]]:
    """The text between the tags, and whether the closing tag is there."""
    start = text.find(f"<{tag}>")
    while start >= 0:
        start += len(tag) + 2
        end = text.find(f"</{tag}>", start)
        yield text[start : end if end >= 0 else len(text)], end >= 0
        start = text.find(f"<{tag}>", end) if end >= 0 else -1


def _planning(text: str) -> tuple[str, bool, str]:
    """The planning, whether it is there and closed, and the text without it: planning may mention tags."""
    before, opened, inside = text.partition("<planning>")
    inside, closed, after = inside.partition("</planning>")
    if not opened:
        return "", False, text
    if not closed:
        planning, tag, code = inside.partition("<code>")
        return planning.strip(), False, before + (tag + code if tag else inside)
    return inside.strip(), bool(inside.strip()), before + after


def _code(text: str) -> tuple[str, bool]:
    """The program's text, and whether it was between both tags."""
    tagged = list(_between(text, "code"))
    if tagged:
        # Prose may mention the tag: the first that holds the function counts.
        inside, closed = next((part for part in tagged if f"def {ENTRY}" in part[0]), tagged[0])
        return _tidy(next(iter(_fenced(inside)), inside)), closed
    fenced = list(_fenced(text))
    if fenced:
        return _tidy(next((part for part in fenced if f"def {ENTRY}" in part), fenced[0])), False
    return _tidy(_bare(text)), False


_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n`]*\n", re.MULTILINE)


def _fenced(text: str) -> Iterator[str]:
    """The content of code fences marked as Python or not marked."""
    start = _FENCE.search(text)
    while start:
        end = text.find("```", start.end())
        if start[1].lower() in ("", "py", "python", "python3"):
            yield text[start.end() : end if end >= 0 else len(text)]
        start = _FENCE.search(text, end + 3) if end >= 0 else None


def _bare(text: str) -> str:
    """The function extracted from prose, with the imports right before it."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if re.match(rf"\s*def {ENTRY}\b", line)), None)
    if first is None:
        return ""
    margin = len(lines[first]) - len(lines[first].lstrip())
    last = first + 1
    while last < len(lines) and (not lines[last].strip() or lines[last][: margin + 1].isspace()):
        last += 1
    while first and (not lines[first - 1].strip() or re.match(r"\s*(import|from)\s+\w", lines[first - 1])):
        first -= 1
    return "\n".join(lines[first:last])


def _tidy(code: str) -> str:
    return textwrap.dedent(code).strip("\n").rstrip()


# ---- the syntax -------------------------------------------------------------------------------------------


def _tree(code: str) -> tuple[ast.Module | None, list[ast.AST], str]:
    """The syntax tree with all its nodes, level by level as `ast.walk` goes; or why there is none."""
    if not code.strip():
        return None, [], "There is no program."
    if len(code) > MAX_CHARS:
        return None, [], f"The program is longer than {MAX_CHARS:,} characters."
    try:
        tree = parse_python(code, REPLY)
    except SyntaxError as error:
        return None, [], f"It is not Python: {error.msg} (line {error.lineno})."
    except (ValueError, MemoryError, RecursionError, OverflowError, SystemError) as error:
        return None, [], f"It cannot be parsed: {error or type(error).__name__}."
    nodes: list[ast.AST] = []
    level: list[ast.AST] = [tree]
    depth = 0
    # The one pass over the tree: a walk for each question took a third of all our work on a question.
    while level:
        nodes += level
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if depth > MAX_DEPTH:
        return None, [], f"Its syntax is nested more than {MAX_DEPTH} deep."
    return tree, nodes, ""


def _parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    arguments = function.args
    return tuple(
        argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def _faults(nodes: list[ast.AST], entries: list[ast.FunctionDef]) -> list[str]:
    """Why a program that parses should not run."""
    faults = []
    if len(entries) != 1:
        faults.append(f"It has no {ENTRY}." if not entries else f"It defines {ENTRY} more than once.")
    elif not _parameters(entries[0]):
        faults.append(f"{ENTRY} takes no video.")
    elif not any(isinstance(n, ast.Return) and n.value is not None for n in _direct_nodes(entries[0])):
        faults.append(f"{ENTRY} returns nothing.")
    for node in nodes:
        if isinstance(node, _MAY_REACH):
            faults += _reaching(node)
    return list(dict.fromkeys(faults))


def _direct_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            left.extend(ast.iter_child_nodes(node))


_MAY_REACH = (ast.Name, ast.Attribute, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def _reaching(node: ast.AST) -> list[str]:
    """How a node reaches outside the program."""
    if isinstance(node, ast.Import):
        return [f"It imports {alias.name}." for alias in node.names if alias.name not in IMPORTABLE_MODULES]
    if isinstance(node, ast.ImportFrom):
        is_importable = node.level == 0 and node.module in IMPORTABLE_MODULES
        return [] if is_importable else [f"It imports {node.module or 'a sibling'}."]
    if isinstance(node, ast.Name) and (node.id in _REACHING or _hidden(node.id)):
        return [f"It uses {node.id}."]
    if isinstance(node, ast.Attribute) and _hidden(node.attr):
        return [f"It uses .{node.attr}."]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and _hidden(node.name):
        return [f"It defines {node.name}."]
    return []


def _hidden(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and not _PLAIN_DUNDER.fullmatch(name)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _is_native(nodes: list[ast.AST]) -> bool:
    if not any(isinstance(node, ast.Name) and node.id == NATIVE_CALL for node in nodes):
        return False
    defined = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    harmless_names = defined | set(dir(builtins)) | _WRAPPERS
    # A query in a loop is asked several times, even if it is written once.
    looped: set[int] = set()
    native = 0
    for node in nodes:
        if isinstance(node, (ast.For, ast.While, *_COMPREHENSIONS)):
            looped.update(id(inside) for inside in ast.walk(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == NATIVE_CALL:
                native += 1
                if id(node) in looped:
                    return False
            elif node.func.id not in harmless_names:
                return False
    return native == 1


def _canonical(tree: ast.Module, nodes: list[ast.AST], code: str) -> str:
    """Unparsed without what changes nothing, docstrings and annotations; the tree is changed."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    try:
        return ast.unparse(tree)
    except ValueError:  # A number with thousands of digits; an f-string that needs more kinds of quotes.
        return code
