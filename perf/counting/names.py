"""Names that say nothing: their share of all names that are bound, and where they are.

A name counts wherever it is bound: a variable (also of a loop, a `with`, an `except` or a comprehension), a
parameter, a function, a class, an attribute that is assigned, and `import ... as`; not `self` and `cls`. It
says nothing if its last word (`rows_found`) is one of VAGUE.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perf.counting.sources import Source

VAGUE = frozenset(
    (
        *("found", "place", "places", "own", "known", "given", "fact", "facts", "words", "said", "told"),
        *("what", "thing", "things", "came", "taken", "wanted", "shown", "asked", "kept", "made", "got"),
        *("held", "met", "others", "rest", "meant", "gone", "whole", "listed", "says", "knows", "sees"),
        *("tells", "wants", "stands", "why"),
    )
)


def names(source: Source) -> Iterator[tuple[str, int]]:
    """Each bound name of a file with its line."""
    for node in source.nodes:
        for name in _bound(node):
            if name.strip("_") and name not in ("self", "cls"):
                yield name, getattr(node, "lineno", 0)


def is_vague(name: str) -> bool:
    """Whether a name says nothing."""
    return name.strip("_").lower().rpartition("_")[2] in VAGUE


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name


def vague_names(files: list[Source]) -> str:
    """The vague names by file with their lines, the file of the most ones first, and what is vague."""
    by_file = {source: sorted((line, name) for name, line in names(source)) for source in files}
    vague = {
        source: [binding for binding in bound if is_vague(binding[1])] for source, bound in by_file.items()
    }
    lines = []
    for source in sorted(files, key=lambda source: (-len(vague[source]), str(source.path))):
        if vague[source]:
            lines.append(f"{source.path}: {len(vague[source])} of {len(by_file[source])} names say nothing")
            lines += [f"    {source.path}:{line}: {name}" for line, name in vague[source]]
    total, every = sum(map(len, vague.values())), sum(map(len, by_file.values()))
    lines.append(f"{total} of {every} bound names ({100 * total / every:.2f} %) end in one of these:")
    lines.append(f"    {', '.join(sorted(VAGUE))}")
    return "\n".join(lines)
