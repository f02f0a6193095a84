"""Which file imports which: lazily, for types only, or by a name that is given to `import_module` too.

A package's `__init__` stands for itself only: importing a file of a package is no import of the package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from perf.counting.sources import Source

_BY_NAME = ("import_module", "__import__")


def imports(files: Mapping[str, Source]) -> dict[str, set[str]]:
    """The files of the checkout that each file imports, by dotted names."""
    written = {name: set(_written(source, files)) for name, source in files.items()}
    graph = {}
    for name, source in files.items():
        named, is_open = _named(source, files)
        if is_open:
            # A name out of a table, `import_module(COMMANDS[name].module)`, here or in an imported file.
            for holder in (name, *written[name]):
                named |= _names_in_texts(files[holder], files)
        graph[name] = (written[name] | named) - {name}
    return graph


def _written(source: Source, files: Mapping[str, Source]) -> Iterator[str]:
    """The files that import statements name."""
    for node in source.statements():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            base = _base(source, node)
            for alias in node.names:
                target = f"{base}.{alias.name}"
                if target in files:
                    yield target
                elif base in files:
                    yield base


def _base(source: Source, node: ast.ImportFrom) -> str:
    """The dotted name that a `from` names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    parts = source.name.split(".")
    up = node.level - (1 if source.is_package else 0)
    outer = parts[: len(parts) - up]
    return ".".join([*outer, node.module] if node.module else outer)


def _import_calls(source: Source) -> Iterator[ast.expr]:
    """What `import_module` and `__import__` are called with."""
    if not any(name in source.text for name in _BY_NAME):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _BY_NAME:
                yield from node.args[:1] or [word.value for word in node.keywords if word.arg == "name"]


def _named(source: Source, files: Mapping[str, Source]) -> tuple[set[str], bool]:
    """The files that are named to `import_module`, and whether a name was computed."""
    named: set[str] = set()
    is_open = False
    for argument in _import_calls(source):
        if isinstance(argument, ast.Constant):
            named |= {str(argument.value)} & set(files)
        elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
            start = str(argument.values[0].value)
            named |= {name for name in files if name.startswith(start) and "." not in name[len(start) :]}
        else:
            is_open = True
    return named, is_open


def _names_in_texts(source: Source, files: Mapping[str, Source]) -> set[str]:
    """The files whose dotted name is a text in a file, but for what `import_module` is called with there:
    that is the other file's import already."""
    spent = {id(argument) for argument in _import_calls(source)}
    texts = (node for node in source.nodes if isinstance(node, ast.Constant) and id(node) not in spent)
    return {node.value for node in texts if isinstance(node.value, str) and "." in node.value} & set(files)


def circles(arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups whose members reach each other (strongly connected components)."""
    import networkx

    graph = networkx.DiGraph(list(arrows))
    groups = networkx.strongly_connected_components(graph)
    return sorted(sorted(group) for group in groups if len(group) > 1)


def floors(arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The longest chain of imports, each circle taken as one: one floor after another, the top one first."""
    import networkx

    contracted = networkx.condensation(networkx.DiGraph(list(arrows)))
    return [sorted(contracted.nodes[node]["members"]) for node in networkx.dag_longest_path(contracted)]


def shortest_circle(ring: Iterable[str], arrows: Iterable[tuple[str, str]]) -> list[str]:
    """The fewest members of a circle that reach each other, in order, with the first one again at the end."""
    import networkx

    graph = networkx.DiGraph(list(arrows)).subgraph(ring)
    rounds = ([first, *networkx.shortest_path(graph, second, first)] for first, second in graph.edges)
    return min(rounds, key=lambda members: (len(members), members))
