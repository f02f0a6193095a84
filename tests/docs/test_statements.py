"""What README and docs take from records is what the records say: cells of tables, and statements of what ran
where, how long and how good.

`<!-- from FILE: TITLE -->` stands above such a table, `<!-- said from FILE: TITLE -->` above a paragraph or
list that is made of a record (perf/recorded.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.recorded import MARK, STATEMENT, lines_of, pages, statement, templates
from perf.stored import parts_measured
from tests.support import ROOT

RAN: dict[str, Any] = yaml.safe_load((ROOT / "perf" / "ran.yaml").read_text(encoding="utf-8"))
GPU: dict[str, Any] = json.loads((ROOT / "perf" / "gpu.json").read_text(encoding="utf-8"))
RESULTS = ROOT / "docs" / "results"
COMPUTED = "tests/benchmarks/official_scores.py"
"""Scores 18,000 replies: tests/benchmarks/test_official_scores.py compares its table, in the process that has
scored them."""


def marked(kind: re.Pattern[str], begins: str, part: str) -> list[tuple[Path, str, str, str]]:
    """The page, the file, the title and this part of everything that is marked so."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        marks = list(kind.finditer(text))
        assert len(marks) == text.count(begins), f"{page}: a mark without its {part}"
        found += [(page, *mark.group("file", "title", part)) for mark in marks if mark["file"] != COMPUTED]
    return found


TABLES = marked(MARK, "<!-- from ", "table")
STATEMENTS = marked(STATEMENT, "<!-- said from ", "text")


@pytest.mark.parametrize(("page", "file", "title", "text"), STATEMENTS, ids=lambda value: str(value)[-60:])
def test_a_statement_is_the_recorded_one(page: Path, file: str, title: str, text: str) -> None:
    assert text.split() == statement(file, title).split()


def test_every_template_stands_on_a_page() -> None:
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    marks = [mark for text in texts for kind in (MARK, STATEMENT) for mark in kind.finditer(text)]
    assert templates().keys() - {(mark["file"], mark["title"]) for mark in marks} == set()


@pytest.mark.parametrize(("page", "file", "title", "table"), TABLES, ids=lambda value: str(value)[-60:])
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


# ---- what ran where ----------------------------------------------------------------------------------------


def test_what_ran_on_a_gpu_is_what_its_record_has() -> None:
    """A row says that something ran on a GPU if and only if it names parts that have figures, and every part
    that has figures is said of some row."""
    named: set[str] = set()
    for row in RAN["rows"]:
        assert bool(row.get("gpu")) == bool(row.get("gpu_parts")), row["path"]
        assert set(row.get("gpu_parts", [])) <= set(parts_measured()), row["path"]
        named |= set(row.get("gpu_parts", []))
    assert named == {letter for letter, part in GPU["parts"].items() if '"figures"' in json.dumps(part)}
    assert set(GPU["parts"]) <= set(RAN["gpu_check"])


def test_a_place_is_said_only_of_what_ran_there() -> None:
    cells = {"here": "here", "random": "here", "gpu": "gpu", "never": "never"}
    for row in RAN["rows"]:
        assert set(row) <= {"path", "here", "gpu", "never", "gpu_parts", "live_engine", "readme"}, row
        assert all(row.get(cells[place]) for place in row.get("readme", {})), row["path"]


def test_the_live_engine_is_the_one_that_was_measured() -> None:
    engine = json.loads((ROOT / "perf" / "served.json").read_text())["engine"]
    named = f"{engine['name']} {'.'.join(engine['version'].split('.')[:2])}".replace("vllm", "vLLM")
    rows = [row["here"] for row in RAN["rows"] if row.get("live_engine")]
    assert len(rows) > 1
    assert all(re.findall(r"vLLM [\d.]+", here) == [named] for here in rows)
