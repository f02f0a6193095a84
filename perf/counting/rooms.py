"""The rooms of a checkout, and the arrows between them.

A room is a direct child of `videopro`: a package or a file, linked folders too. The scripts that use the
package (`perf`, `launch`, the tests) are no rooms of it: they may import all of it. A door is no room either:
the `__init__` and `__main__` of `videopro`, or a file that only imports and calls, so that
`python -m videopro.NAME` or a former name still works. Who imports a door has an arrow to what the door
imports.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perf.counting.imports import circles, floors, imports, shortest_circle
from perf.counting.sources import PACKAGE, Source


@dataclass(frozen=True)
class Rooms:
    """The parts of a checkout."""

    names: list[str]
    doors: list[str]
    files: dict[str, set[str]]
    """The files that each file imports, doors among them."""
    arrows: dict[tuple[str, str], list[tuple[str, str]]]
    """Pairs of rooms with the pairs of files, importing and imported, behind each."""


def rooms(files: Mapping[str, Source]) -> Rooms:
    """The rooms and arrows of a checkout's files."""
    graph = imports(files)
    doors = {name for name, source in files.items() if is_door(source)}
    arrows: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for name in sorted(files):
        if name in doors:
            continue
        for target in sorted(through_doors(graph[name], graph, doors)):
            if room(name) != room(target):
                arrows[room(name), room(target)].append((name, target))
    inside = {room(name) for name in files if name not in doors and room(name).startswith(f"{PACKAGE}.")}
    drawn = {pair: files for pair, files in arrows.items() if set(pair) <= inside}
    return Rooms(sorted(inside), sorted(doors), graph, dict(sorted(drawn.items())))


def room(name: str) -> str:
    """The room that a file lies in: `videopro.methods` of `videopro.methods.base`; `perf` of `perf.index`."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] == PACKAGE else 1])


def is_door(source: Source) -> bool:
    """Whether a file only hands on: it defines nothing and decides nothing. Such a `__main__` counts in every
    package, other files only directly in `videopro`."""
    package, _, last = source.name.rpartition(".")
    if source.name == PACKAGE or source.name == f"{PACKAGE}.__main__":
        return True
    if source.is_package or (last != "__main__" and package != PACKAGE):
        return False
    return all(_hands_on(statement) for statement in source.tree.body)


def _hands_on(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return not statement.orelse and all(_hands_on(inner) for inner in statement.body)
    if isinstance(statement, ast.Assign):
        return [getattr(target, "id", "") for target in statement.targets] == ["__all__"]
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr | ast.Raise)


def through_doors(targets: set[str], graph: Mapping[str, set[str]], doors: set[str]) -> Iterator[str]:
    """The imported files, and behind each door what it imports."""
    seen: set[str] = set()
    waiting = [*targets]
    while waiting:
        target = waiting.pop()
        if target in seen or target == PACKAGE:
            continue
        seen.add(target)
        if target in doors:
            waiting.extend(graph[target])
        else:
            yield target


def edges(counted: Rooms) -> str:
    """The longest chain, the circles, and every arrow with the imports behind it. In each room, the arrow of
    the fewest imports is the first."""
    chain = floors(counted.arrows)
    lines = [f"{len(counted.names)} rooms, {len(chain)} floors, {len(counted.arrows)} arrows"]
    lines.append("the longest chain: " + " -> ".join(" and ".join(floor) for floor in chain))
    imported = [(name, target) for name, targets in counted.files.items() for target in targets]
    for members, pairs in (("rooms", list(counted.arrows)), ("files", imported)):
        for ring in circles(pairs):
            shortest = " -> ".join(shortest_circle(ring, pairs))
            lines.append(f"a circle of {len(ring)} {members}; the shortest in it: {shortest}")
    arrows = sorted(counted.arrows.items(), key=lambda arrow: (arrow[0][0], len(arrow[1])))
    for (first, second), behind in arrows:
        lines.append(f"{first} -> {second}: {len(behind)}")
        lines += [f"    {importing} -> {target}" for importing, target in behind]
    return "\n".join(lines)
