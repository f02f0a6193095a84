"""Counts how a checkout is built, for this one or others.

    python -m perf.house [CHECKOUT ...] [--output FILE]
    python -m perf.house BEFORE . --output perf/house.json      docs/results/house.md
    python -m perf.house --arrows                               the imports behind every arrow
    python -m perf.house --comments                             the share of comment lines by file

A room is a package or a file directly in `videopro`, linked folders too, without the two that only start
commands. An arrow goes from a room to one that it imports, as grimp reads it: inside functions and for types
too. Comments, functions and settings are those of production: `videopro` with the folders linked into it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, write_record
from videopro.cli import setting
from videopro.errors import ConfigError

DOORS = ("videopro.__main__", "videopro.infer", "videopro.api")
# Settings that have no help text: what `--backbone NAME=VALUE` takes, but for what `--model` itself says.
_WITHOUT_HELP = ("BackboneConfig",)
_OF_THE_MODEL = ("model", "kind", "base_url")
# The metadata of fields that no user gives (videopro.cli.settings).
_FIXED = ("recorded", "constant")
_AREAS = {
    "production": (("videopro", "modules", "train", "data_synthesis"), (".py",)),
    "perf": (("perf",), (".py", ".md")),
    "tests": (("tests",), (".py",)),
    "docs": (("docs",), (".md", ".py")),
    "launch": (("launch",), (".py", ".sh")),
}
# In a process of its own: grimp finds the package as Python does.
_GRAPH = """
import grimp, json
graph = grimp.build_graph("videopro", cache_dir=None)
files = {name: sorted(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
print(json.dumps(files))
"""


@dataclass(frozen=True)
class HouseSettings:
    """Count rooms, arrows, settings, comments and lines."""

    checkouts: tuple[Path, ...] = field(
        default=(), metadata=setting("roots of checkouts; none: this one", positional=True)
    )
    arrows: bool = field(default=False, metadata=setting("list the imports between files behind every arrow"))
    comments: bool = field(default=False, metadata=setting("list the share of comment lines by file"))
    output: Path | None = field(
        default=None, metadata=setting("JSON file for the figures; unset: print them")
    )


Arrows = dict[tuple[str, str], list[tuple[str, str]]]


def arrows(root: Path) -> Arrows:
    """Pairs of rooms, importing and imported, with the pairs of files behind each. Raises ConfigError for a
    folder that is no checkout."""
    if not (root / "videopro").is_dir():
        raise ConfigError(f"{root}: has no folder videopro; give the root of a checkout")
    done = subprocess.run(
        [sys.executable, "-c", _GRAPH],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: Arrows = {}
    for name, imported in sorted(json.loads(done.stdout).items()):
        for target in imported:
            pair = _room(name), _room(target)
            if pair[0] != pair[1] and not {*pair} & {"videopro", *DOORS}:
                found.setdefault(pair, []).append((name, target))
    return found


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def floors(counted: Arrows) -> list[list[str]]:
    """The longest chain of imports, each circle taken as one: one floor after another, the top one first."""
    import networkx

    contracted = networkx.condensation(networkx.DiGraph(list(counted)))
    return [sorted(contracted.nodes[node]["members"]) for node in networkx.dag_longest_path(contracted)]


# ---- comments, functions, settings and lines -------------------------------------------------------------


def comment_lines(text: str) -> int:
    """The lines that are a comment and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


def function_lengths(texts: dict[str, str]) -> tuple[float, int, str]:
    """The median and the longest function in lines without decorators, and the longest one's name."""
    lengths = [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{name}: {node.name}")
        for name, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return statistics.median(length for length, _ in lengths), *max(lengths)


def settings(text: str) -> list[str]:
    """The declared settings of a file, by class and field: fields with metadata (`setting(...)`, or a help
    text for TRL's parser), and what `--backbone` takes of `BackboneConfig`."""
    return [
        f"{holder.name}.{declared.target.id}"
        for holder in ast.walk(ast.parse(text))
        if isinstance(holder, ast.ClassDef)
        for declared in holder.body
        if isinstance(declared, ast.AnnAssign)
        and isinstance(declared.target, ast.Name)
        and (
            _has_metadata(declared.value)
            or (holder.name in _WITHOUT_HELP and declared.target.id not in _OF_THE_MODEL)
        )
    ]


def _has_metadata(value: ast.expr | None) -> bool:
    """Whether a field has metadata, other than that of what no user gives, as each `option(...)` has."""
    if not isinstance(value, ast.Call):
        return False
    return getattr(value.func, "id", "") == "option" or any(
        word.arg == "metadata"
        and not (isinstance(word.value, ast.Call) and getattr(word.value.func, "id", "") in _FIXED)
        for word in value.keywords
    )


def _files(root: Path, area: str) -> Iterator[Path]:
    """The files of an area; links to folders are not followed, so nothing is counted twice."""
    folders, endings = _AREAS[area]
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in endings and path.is_file():
                yield path


def measured(root: Path) -> dict[str, Any]:
    """The figures of one checkout."""
    counted = arrows(root)
    production = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in _files(root, "production")
    }
    median, longest, where = function_lengths(production)
    declared = [name for text in production.values() for name in settings(text)]
    return {
        "commit": commit_of(root),
        "rooms": sorted({room for pair in counted for room in pair}),
        "arrows": len(counted),
        "floors": floors(counted),
        "comment_lines": sum(map(comment_lines, production.values())),
        "code_lines": sum(len(text.splitlines()) for text in production.values()),
        "settings": {"declared": len(declared), "names": len({name.split(".")[1] for name in declared})},
        "functions": {"median": median, "longest": longest, "longest_is": where},
        "lines": {
            area: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in _files(root, area))
            for area in _AREAS
        },
    }


def shown(given: HouseSettings, root: Path) -> Iterator[str]:
    """The lines of the lists that were asked for."""
    if given.arrows:
        for (importing, imported), behind in arrows(root).items():
            yield f"{importing} -> {imported}: {len(behind)}"
            yield from (f"    {name} -> {target}" for name, target in behind)
    if given.comments:
        for path in _files(root, "production"):
            text = path.read_text(encoding="utf-8")
            comments, lines = comment_lines(text), len(text.splitlines())
            yield f"{100 * comments / max(lines, 1):5.1f} % of {lines:6} lines  {path.relative_to(root)}"


def count(given: HouseSettings) -> None:
    """Print or write what was asked for."""
    roots = [root.resolve() for root in given.checkouts or (ROOT,)]
    if given.arrows or given.comments:
        print("\n".join(line for root in roots for line in shown(given, root)))
        return
    figures = [measured(root) for root in roots]
    if given.output is not None:
        write_record(given.output, figures)
    else:
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    run_command(HouseSettings, count, "stopped")
