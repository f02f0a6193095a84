"""What README and docs take from records is what the records say: cells of tables, statements of what ran
where, how long and how good, and figures in sentences.

`<!-- from FILE: TITLE -->` stands above such a table, `<!-- said from FILE: TITLE -->` above a paragraph or
list that is made of a record (perf/recorded.py). `<!-- figures of FILE, FILE -->` stands above a paragraph or
list whose figures are in these records, relative to the repository, or in a table of the page. Figures are
numbers with a decimal point; whole numbers are mostly sizes and settings.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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
    *("| config | |", "| field | |", "| setting | default | |", "| exit status | when |"),
    "| you have | run |",
    "| refused | status |",
    "| annotation | a program may pass | the module gets | parameters |",
    # settings, sizes and results of papers, of their code and of data
    "| from the paper | from the authors' public code | ours |",
    "| | paper | release | here | why | to restore |",
    "| source | annotations | pairs in Table 8 | words per caption | seconds per video |",
    "| split | videos | questions | for |",
    "| `--tables` | in the paper | what it needs |",
    "| in the paper | runs | questions | paper, % | chance of sampling, points |",
    "| page | what was measured |",
    # counts of texts, as their pages say
    "| `reference` | prompts hold | characters | tokens of Qwen | of pocket |",
    "| | Qwen3-VL: 4.57.6 | 5.24.0 | here | Qwen3.5: 5.9.0 | 5.24.0 | here |",
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
    if name not in ("pocket-sampled", "pocket-faultless")  # whose traces are not scored, but read
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


# ---- figures in sentences ------------------------------------------------------------------------------

BY_HAND = (RESULTS / "methods").glob("*.md")
GENERATED = {ROOT / "docs/reference/modules.md", *RESULTS.glob("*/*.md")} - {*BY_HAND}
WRITTEN = sorted(set(pages()) - GENERATED)

# Figures that nobody here measured, by page and by what they are.
_GIVEN: dict[str, dict[str, str]] = {
    "settings and thresholds": {
        "docs/results/methods/videoagent.md": "0.5",
        "docs/results/official-scorers.md": "0.7",
    },
    "sizes of files and models": {
        "docs/results/pocket-model.md": "1.5 1.6 7.6",
        "docs/results/sft.md": "1.7",
    },
    "the papers' own": {
        "docs/results/grpo.md": "61.2 65.0 66.8 68.8",
        "docs/results/methods/lvagent.md": "33.6 38.7 31.6 90.5",
        "docs/results/methods/vca.md": "3.0 1.28 0.60 1.75",
    },
}
_VERSIONS = re.compile(
    r"(?:accelerate|Apache-|DeepSpeed|inspect_ai|lmms-eval|peft|Python|python|PyTorch|Ray|SAM|[Ss]ections?|torch"
    r"|transformers|trl|TRL|vLLM|versions?)[ -]?[\d.]+\d(?:(?:,| to| and| or) [\d.]+\d)*|\b\d{4}\.\d{5}\b"
)
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\w.]*\w)")
_MARK = re.compile(r"^<!-- figures of (?P<files>[^>]+) -->\n")


def paragraphs(page: Path) -> Iterator[str]:
    """The text of a page in paragraphs, without what is made of records, code and the targets of links."""
    text = STATEMENT.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in text.split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        yield "\n".join(line for line in lines if not line.startswith(("|", "    ", "<!-- from ")))


def figures(paragraph: str) -> list[str]:
    joined = " ".join(paragraph.split())
    return _FIGURE.findall(_VERSIONS.sub("", re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "", joined)))


@cache
def numbers(file: str) -> frozenset[float]:
    """All numbers of a record, and per cent of those that are shares."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found: set[float] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            collect(list(value.values()))
        elif isinstance(value, list):
            for each in value:
                collect(each)
        elif isinstance(value, int | float):
            found.add(abs(value))

    collect(json.loads(text) if file.endswith(".json") else [float(one) for one in _FIGURE.findall(text)])
    return frozenset(found | {100 * share for share in found if share <= 1})


def is_recorded(figure: str, files: list[str]) -> bool:
    digits = len(figure.partition(".")[2])
    shown = float(figure.replace(",", ""))
    # A half may have been rounded either way.
    return any(abs(number - shown) <= 0.5000001 * 10**-digits for file in files for number in numbers(file))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_figure_in_a_sentence_is_in_a_table_of_the_page_or_in_its_record(page: Path) -> None:
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
    tables = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    known = set(_FIGURE.findall(tables))
    given = {figure for of in _GIVEN.values() for figure in of.get(name, "").split()}
    wrong, used = [], set()
    for paragraph in paragraphs(page):
        mark = _MARK.match(paragraph)
        files = mark["files"].split(", ") if mark is not None else []
        for figure in figures(paragraph[mark.end() :] if mark is not None else paragraph):
            if figure in known or is_recorded(figure, files):
                continue
            used.add(figure)
            if figure not in given:
                wrong.append(f"{figure}: {' '.join(paragraph.split())[:90]}")
    assert wrong == []
    assert given - used == set()
