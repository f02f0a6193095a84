"""The Python files of a checkout by the name under which they are imported, parsed once."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from videopro.errors import ConfigError

PACKAGE = "videopro"
# Top-level folders that are no part of the house: what checks it, and what is written about it.
_OUTSIDE = ("tests", "docs")


@dataclass(frozen=True)
class Source:
    """One file of a checkout."""

    name: str
    """Dotted, as imported: `videopro.modules.library`."""
    path: Path
    """Relative to the checkout, links followed: `modules/library.py`."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the parsed file; walking them again costs as much as parsing."""
        return list(ast.walk(self.tree))

    def statements(self) -> Iterator[ast.stmt]:
        """All statements, also inside functions, without what their expressions hold: far faster."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.stmt):
                yield node
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                parts = getattr(node, name, None)
                if isinstance(parts, list):
                    waiting.extend(parts)

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__` of a package."""
        return self.path.name == "__init__.py"


def sources(root: Path) -> dict[str, Source]:
    """The files of `videopro`, with the folders linked into it, and of every other top-level folder that
    has Python files, except for tests and docs. By dotted name."""
    root = root.resolve()
    if not (root / PACKAGE).is_dir():
        raise ConfigError(f"{root}: has no folder {PACKAGE}; give the root of a checkout")
    files = {path.resolve(): path for path in _python_files(root / PACKAGE)}
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and folder.name not in (*_OUTSIDE, PACKAGE) and _is_code(folder):
            for path in _python_files(folder):
                files.setdefault(path.resolve(), path)
    read = (_source(root, real, path) for real, path in files.items())
    return {source.name: source for source in sorted(read, key=lambda source: source.name)}


def _is_code(folder: Path) -> bool:
    return not folder.name.startswith(".") and not folder.name.endswith(".egg-info")


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if _is_code(Path(name)) and name != "__pycache__")
        yield from (Path(parent) / name for name in sorted(names) if name.endswith(".py"))


def _source(root: Path, real: Path, path: Path) -> Source:
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Source(name, real.relative_to(root), real.read_text(encoding="utf-8"))
