"""Lines of code by room against the budget in pyproject.toml (`[tool.videopro.code-budget]`).

    python launch/code_budget.py            the table; status 1 if a room has more than its budget
    python launch/code_budget.py --write    sets every budget to what the room has now
    python launch/code_budget.py PATH ...   the lines, and lines of code, of these files and folders

Code is what is left without blank lines, comments, docstrings and imports. Rooms are the packages in
`videopro` and `train`, `modules` and `data_synthesis`; files next to them count for the folder. A
change that needs more deletes as much, or raises the number in the same commit, with the reason in its
message.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("videopro", "train", "modules", "data_synthesis")
# Tokens that make no line a line of code.
_SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """The lines of a file that are neither blank nor comment, docstring or import."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        parts = [part for part in body if _is_text(part)] if isinstance(body, list) else []
        for part in [node, *parts] if isinstance(node, ast.Import | ast.ImportFrom) else parts:
            left_out.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - left_out)


def _is_text(part: ast.stmt) -> bool:
    """Whether a statement is a docstring, of a field too."""
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def rooms(root: Path) -> Counter[str]:
    """The lines of code of each room. Linked folders count once, at their real path."""
    counts: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in _files(root / folder):
            parts = path.relative_to(root).parts
            is_nested = folder in ("videopro", "train") and len(parts) > 2
            counts["/".join(parts[: 2 if is_nested else 1])] += code_lines(path.read_text(encoding="utf-8"))
    return counts


def _files(path: Path) -> list[Path]:
    """A file, or the files of a folder, without links."""
    if path.is_file():
        return [path]
    folders = {path, *(file.parent for file in path.rglob("*.py"))}
    return sorted(
        file
        for folder in folders
        if not any(above.is_symlink() for above in (folder, *folder.parents) if above.is_relative_to(path))
        for file in folder.glob("*.py")
    )


def show(paths: Sequence[Path]) -> None:
    """Print the lines, and the lines of code, of files and folders, and their sums."""
    sums = [0, 0]
    for path in paths:
        texts = [file.read_text(encoding="utf-8") for file in _files(path)]
        counts = sum(len(text.splitlines()) for text in texts), sum(map(code_lines, texts))
        sums = [sums[0] + counts[0], sums[1] + counts[1]]
        print(f"{path!s:48} {counts[0]:7,} {counts[1]:7,}")
    print(f"{'all':48} {sums[0]:7,} {sums[1]:7,}")


def budget(root: Path) -> dict[str, int]:
    """The budget of each room."""
    content = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(content["tool"]["videopro"]["code-budget"])


def main(root: Path = ROOT, *, write: bool = False) -> int:
    """Print the table. Returns 1 if a room has more than its budget, or none."""
    counts = rooms(root)
    if write:
        path = root / "pyproject.toml"
        table = "".join(f'"{room}" = {lines}\n' for room, lines in sorted(counts.items()))
        text = re.sub(
            r"(?<=\[tool\.videopro\.code-budget\]\n)(?:\"[^\n]*\n)*", table, path.read_text(encoding="utf-8")
        )
        path.write_text(text, encoding="utf-8")
    allowed = budget(root)
    over = {room for room, lines in counts.items() if lines > allowed.get(room, 0)}
    for room, lines in sorted(counts.items()):
        print(f"{room:24} {lines:7,} of {allowed.get(room, 0):7,}{'  over budget' if room in over else ''}")
    print(f"{'all':24} {sum(counts.values()):7,} of {sum(allowed.values()):7,}")
    if over:
        print(
            f"error: {', '.join(sorted(over))}: more code than the budget in pyproject.toml; delete code, or "
            "raise the number in the same commit and give the reason",
            file=sys.stderr,
        )
    return 1 if over else 0


if __name__ == "__main__":
    if paths := [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]:
        show(paths)
        sys.exit()
    sys.exit(main(write="--write" in sys.argv[1:]))
