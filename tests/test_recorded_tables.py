"""Tables of README and docs that say which recorded file they are from: every cell is that file's.

`<!-- from FILE: TITLE -->` stands above such a table (perf/recorded.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.recorded import MARK, lines_of, pages
from tests.support import ROOT

RESULTS = ROOT / "docs" / "results"
COMPUTED = "tests/benchmarks/official_scores.py"
"""Scores 18,000 replies: tests/benchmarks/test_official_scores.py compares its table, in the process that has
scored them."""


def marked() -> list[tuple[Path, str, str, str]]:
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        marks = list(MARK.finditer(text))
        assert len(marks) == text.count("<!-- from "), f"{page}: a mark without its table"
        found += [(page, *mark.group("file", "title", "table")) for mark in marks if mark["file"] != COMPUTED]
    return found


@pytest.mark.parametrize(("page", "file", "title", "table"), marked(), ids=lambda value: str(value)[-60:])
def test_a_table_is_the_recorded_one(page: Path, file: str, title: str, table: str) -> None:
    recorded = lines_of(file, title)
    lines = table.splitlines()
    assert lines[:2] == recorded[:2]
    assert [line for line in lines[2:] if line not in recorded[2:]] == []
    assert len(set(lines[2:])) == len(lines[2:]) > 0


# The heads of tables whose figures are no measurements.
_NO_MEASUREMENTS = {
    # settings, their defaults and values that can be given; exit statuses
    *(f"| {name} | default | |" for name in ("setting", "build argument", "`--ray`", "`--vllm`")),
    *(f"| {name} | |" for name in ("config", "field", "setting")),
    *("| | options |", "| | options | |", "| flag | reason |", "| exit status | when |"),
    "| annotation | a program may pass | the module gets | parameters |",
    # settings, sizes and results of papers, of their code and of data
    "| from the paper | from the authors' public code | ours |",
    "| | paper | release | here | why | to restore |",
    "| source | annotations | pairs in Table 8 | words per caption | seconds per video |",
    "| split | videos | questions | for |",
    "| `--tables` | in the paper | what it needs |",
    "| in the paper | runs | questions | paper, % | chance of sampling, points |",
    "| page | what was measured |",
    # trials that have no record, and counts of texts, as their pages say
    "| without | right, first answers with the native fallback, % |",
    "| without | plans that call a missing module | plans as with all modules | right, first | "
    "right, native fallback |",
    "| `reference` | prompts hold | characters | tokens of Qwen | of pocket |",
    # what fits where, in sentences whose figures a record has, and what other projects say of themselves
    *("| | 8B | 32B |", "| | what | on what | source |"),
    # sizes of what a test or a script tries
    *("| tried | before | now |", "| tried | before | now | tests |", "| tried | reply |"),
    "| part | what it measures |",
}


def tables_of_figures(page: Path) -> Iterator[tuple[str, bool]]:
    """The head of each table with more than three figures, and whether it names its source."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("|") or lines[number - 1].startswith("|"):
            continue
        body = "\n".join(lines[number:]).split("\n\n")[0]
        figures = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.-]*\w)", body)
        if len(figures) > 3:
            yield line, lines[number - 1].startswith("<!-- from ")


def test_every_table_of_figures_names_its_source() -> None:
    """On every page, but for the files below docs/results, which are such sources themselves."""
    tables = {
        (str(page.relative_to(ROOT)), head)
        for page in set(pages()) - set(RESULTS.glob("*/*.md"))
        for head, is_marked in tables_of_figures(page)
        if not is_marked
    }
    assert {(page, head) for page, head in tables if head not in _NO_MEASUREMENTS} == set()
    assert _NO_MEASUREMENTS - {head for _, head in tables} == set()


RECOUNTED = [
    pytest.param(name, marks=() if name == "pocket-merged" else pytest.mark.long)
    for name in sorted(path.parent.name for path in RESULTS.glob("*/traces.tar.xz"))
    if name != "pocket-sampled"  # whose traces are not scored, but read
]


@pytest.mark.parametrize("results", RECOUNTED)
def test_recount_makes_exactly_what_is_committed(results: str, tmp_path: Path) -> None:
    checkout, output = tmp_path / "checkout", tmp_path / "results"
    (checkout / ".venv").mkdir(parents=True)
    for name in ("docs", "launch", "pyproject.toml"):
        (checkout / name).symlink_to(ROOT / name)
    # The installation that runs this test, which launch/setup.sh then takes for its own.
    (checkout / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    sums = subprocess.run(["cksum", "pyproject.toml"], cwd=checkout, capture_output=True, check=True).stdout
    (checkout / ".venv" / ".installed-report").write_bytes(sums)
    done = subprocess.run(
        ["bash", str(checkout / "launch" / "recount.sh"), str(output)],
        env={**os.environ, "RESULTS": results},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made = {path.relative_to(output): path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert made
    assert [str(name) for name, content in made.items() if content != (RESULTS / name).read_bytes()] == []
