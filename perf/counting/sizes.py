"""Comments, functions, settings and lines."""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from perf.counting.sources import Source

# Settings that have no help text: what `--backbone NAME=VALUE` takes.
_WITHOUT_HELP = ("BackboneConfig",)
# The metadata of fields that no user gives (videopro.cli.settings).
_FIXED = ("recorded", "constant")
# What `--model` itself says of a model, and `--backbone` does not take.
_OF_THE_MODEL = ("model", "kind", "base_url")
# Which files of a folder are counted in lines.
_AREAS = {
    "production": (("videopro", "modules", "train", "data_synthesis"), (".py",)),
    "perf": (("perf",), (".py",)),
    "tests": (("tests",), (".py",)),
    "docs": (("docs",), (".md", ".py")),
    "launch": (("launch",), (".py", ".sh")),
}


def comment_lines(source: Source) -> int:
    """The lines that are a comment and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


def line_count(source: Source) -> int:
    """The lines of a file."""
    return len(source.text.splitlines())


def comment_shares(files: Iterable[Source]) -> str:
    """The share of comment lines by file, the lowest and longest first."""
    rows = [(comment_lines(source), line_count(source), source.path) for source in files]
    rows.sort(key=lambda row: (row[0] / max(row[1], 1), -row[1]))
    comments, lines = sum(row[0] for row in rows), sum(row[1] for row in rows)
    rows_and_sum = [*rows, (comments, lines, "all")]
    return "\n".join(
        f"{100 * few / max(many, 1):5.1f} % {few:5} of {many:6} lines  {path}"
        for few, many, path in rows_and_sum
    )


def function_lengths(files: Iterable[Source]) -> tuple[float, int, str]:
    """The median and the longest function in lines without decorators, and the longest one's name."""
    lengths = [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{source.path}: {node.name}")
        for source in files
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return statistics.median(length for length, _ in lengths), *max(lengths)


def settings(files: Iterable[Source]) -> list[str]:
    """The declared settings, by class and field: fields with metadata (`setting(...)`, or a help text for
    TRL's parser), and what `--backbone` takes of `BackboneConfig`."""
    return [
        f"{holder.name}.{declared.target.id}"
        for source in files
        for holder in source.nodes
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


def lines_by_area(root: Path) -> dict[str, int]:
    """The lines of a checkout's areas, without what is linked into them, and of its README."""
    areas = {
        area: sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for folder in folders
            for path in _files(root / folder)
            if path.suffix in endings
        )
        for area, (folders, endings) in _AREAS.items()
    }
    return {**areas, "README.md": len((root / "README.md").read_text(encoding="utf-8").splitlines())}


def _files(folder: Path) -> Iterator[Path]:
    # Links to folders are not followed, so nothing is counted twice.
    return (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
