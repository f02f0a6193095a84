"""The official code: read from copies of its repositories at named commits, run, and not kept."""

import ast
import contextlib
import io
import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

LMMS_EVAL = "EvolvingLMMs-Lab/lmms-eval"
VLMEVALKIT = "open-compass/VLMEvalKit"


@dataclass(frozen=True)
class Script:
    """A file of a repository at a commit."""

    repository: str
    file: str
    commit: str

    def source(self, repositories: Path) -> str:
        """Its text; of a notebook, that of its cells of code. `repositories` has a git directory
        OWNER+NAME/repo, or a clone OWNER+NAME, of each."""
        folder = repositories / self.repository.replace("/", "+")
        git = folder / "repo" if (folder / "repo").is_dir() else folder
        command = ["git", "-C", str(git), "show", f"{self.commit}:{self.file}"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if not self.file.endswith(".ipynb"):
            return text
        cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return "\n".join(cell for cell in cells if not cell.startswith("%"))

    def names(
        self, repositories: Path, *names: str, changes: Mapping[str, str] = MappingProxyType({}), **given: Any
    ) -> Any:
        """The functions and constants of these names, without the script's imports: `given` replaces them.
        `changes`: texts that occur once, and what stands in their place."""
        source = self.source(repositories)
        for text, new in changes.items():
            assert source.count(text) == 1, text
            source = source.replace(text, new)
        tree = ast.parse(source)
        kept = [node for node in tree.body if _defines(node) in names]
        space: dict[str, Any] = {"re": re, "json": json, "np": np, "pd": pd, **given}
        exec(compile(ast.Module(kept, []), self.file, "exec"), space)
        return SimpleNamespace(**{name: space[name] for name in names})


def _defines(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def printed_by(function: Callable[..., object], *given: Any) -> str:
    """What a call prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        function(*given)
    return printed.getvalue()


NO_DRAW = SimpleNamespace(choice=lambda options: "")
"""In place of `random`: the draw of an option for a reply that cannot be read is wrong."""


def verdicts(read: Sequence[str | None], golds: Sequence[str]) -> str:
    """One character for each reply: see `Scores`. None: the reply does not count."""
    pairs = zip(read, golds, strict=True)
    return "".join("-" if letter is None else str(int(letter == gold)) for letter, gold in pairs)
