"""Names of the code in pages, scripts and configs: each package, module, object and file exists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT

FOLDERS = ("videopro", "modules", "train", "data_synthesis", "launch", "perf", "tests", "docs", "configs")
# The changelog also names what went.
PAGES = [
    *sorted(set(ROOT.glob("*.md")) - {ROOT / "CHANGELOG.md"}),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "videopro").rglob("*.md")),
]
SCRIPTS = [
    *sorted(path for end in ("py", "sh", "yaml") for path in (ROOT / "launch").rglob(f"*.{end}")),
    *sorted((ROOT / "configs").rglob("*.yaml")),
    *(ROOT / name for name in ("pyproject.toml", "mkdocs.yml", ".github/workflows/test.yml", ".ci/run")),
]
# Files of the examples in CONTRIBUTING.md, and names that stand for any.
EXAMPLES = {"modules/brightness.py", "videopro/methods/middle.py", "videopro.methods.middle", "videopro.NAME"}
_DOTTED = re.compile(r"(?<![\w./-])videopro(?:\.[A-Za-z_]\w*)+")
_FILE_ENDS = {"md", "json", "jsonl", "py", "git", "toml", "db"}
_PATH = re.compile(rf"(?<![\w.~/<{{*-])(?:{'|'.join(FOLDERS)})/[\w./*-]*\w")
_TEST = re.compile(r"`((?:[\w]+/)*test_\w+\.py)`")


@cache
def bound_names(file: Path) -> frozenset[str]:
    """What a file binds at its top level, also where it imports for types only."""
    bound: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return frozenset(bound | {"__file__"})


def exists(dotted: str) -> bool:
    """Whether `videopro.a.b` is a package, a module, or a name in one."""
    _, *parts = dotted.split(".")
    here = ROOT / "videopro"
    for number, part in enumerate(parts):
        if (here / part).is_dir():
            here /= part
            continue
        module = here / f"{part}.py"
        left = parts[number + 1 :] if module.exists() else parts[number:]
        file = module if module.exists() else here / "__init__.py"
        return not left or (file.exists() and left[0] in bound_names(file))
    return True


def missing_names(text: str) -> Iterator[str]:
    """Dotted names and paths of a text that do not exist."""
    for dotted in _DOTTED.findall(text):
        if dotted.rpartition(".")[2] not in _FILE_ENDS and dotted not in EXAMPLES and not exists(dotted):
            yield dotted
    for path in _PATH.findall(text):
        # docs/hardening.md names tests relative to tests/, some of them in tests/docs or tests/train.
        if path not in EXAMPLES and not any(ROOT.glob(path)) and not (ROOT / "tests" / path).exists():
            yield path


def paragraphs_of_today(page: Path) -> str:
    """A page without the paragraphs that say where something stood until it went."""
    paragraphs = page.read_text(encoding="utf-8").split("\n\n")
    return "\n\n".join(each for each in paragraphs if not re.search(r"last stood\s+at commit", each))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = paragraphs_of_today(page)
    spans = re.findall(r"`[^`]+`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    fences = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    assert sorted(set(missing_names("\n".join([*spans, *fences])))) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ROOT)))
def test_what_a_script_or_config_names_exists(script: Path) -> None:
    # Groups of entry points are no modules.
    text = re.sub(r"entry-points\.\"[\w.]+\"", "", script.read_text(encoding="utf-8"))
    assert sorted(set(missing_names(text))) == []


def test_tests_that_a_record_of_trials_names_exist() -> None:
    """In docs/hardening.md they stand relative to tests/."""
    tests = _TEST.findall((ROOT / "docs" / "hardening.md").read_text(encoding="utf-8"))
    assert len(tests) > 30
    assert sorted({test for test in tests if not (ROOT / "tests" / test).exists()}) == []


def test_a_name_that_is_gone_is_seen() -> None:
    text = "`videopro.runner`, videopro.methods.no_method, `videopro/planners/base.py`, videopro.traces.Trace"
    assert list(missing_names(text)) == [
        "videopro.runner", "videopro.methods.no_method", "videopro/planners/base.py",
    ]  # fmt: skip


def test_the_floors_of_the_architecture_are_those_of_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = [line.split() for line in text.split("```")[1].strip().splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    # Above them are the doors.
    floors = [[name.removeprefix("videopro.") for name in re.split(r" [|:] ", layer)] for layer in layers[1:]]
    assert [sorted(floor) for floor in picture] == [sorted(floor) for floor in floors]
    table = re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE)
    assert table == [name for floor in picture for name in floor]
