"""Tables of README and docs that say which recorded file they are from: every cell is that file's.

`<!-- from FILE: TITLE -->` stands above such a table (perf/recorded.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from perf.recorded import MARK, lines_of, pages
from tests.support import ROOT
from videopro.traces import read_traces

RESULTS = ROOT / "docs" / "results"


COMPUTED = "tests/benchmarks/official_scores.py"
"""Scores 18,000 replies: tests/benchmarks/test_official_scores.py compares its table, in the process that has
scored them."""


def extract(archive: Path, folder: Path, among: Collection[str] = ()) -> None:
    """Unpack an archive of this repository, or of its top folders only those `among`. Python before 3.11.4
    (Debian 12's) has no filter, and needs none for files of our own."""
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as opened:
        wanted = [
            member
            for member in opened.getmembers()
            if not among or member.name.removeprefix("./").split("/")[0] in among
        ]
        opened.extractall(folder, members=wanted, **safely)


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


# Tables that wait for a run whose traces are kept, by page. Only fewer are allowed.
_NOT_YET: dict[str, int] = {}

# Tables whose figures are no measurements, by what their figures are: page and head.
_NO_MEASUREMENTS = {
    "settings, their defaults and values that can be given": [
        ("docs/backbones.md", "| setting | default | |"),
        ("docs/clusters.md", "| `--ray` | default | |"),
        ("docs/docker.md", "| build argument | default | |"),
        ("docs/methods/dvd.md", "| setting | default | |"),
        ("docs/serving.md", "| `--vllm` | default | |"),
        ("docs/methods/dvd.md", "| | options |"),
        ("docs/methods/lvagent.md", "| setting | default | |"),
        ("docs/methods/vca.md", "| setting | default | |"),
        ("docs/methods/vca.md", "| | options | |"),
        ("docs/methods/videoagent.md", "| setting | default | |"),
        ("docs/methods/videoagent.md", "| | options |"),
        ("docs/methods/videopro.md", "| setting | default | |"),
        ("docs/own-videos.md", "| field | |"),
        ("docs/modules.md", "| annotation | a program may pass | the module gets | parameters |"),
        ("docs/reproduce.md", "| config | |"),
        ("docs/serving.md", "| flag | reason |"),
        ("docs/synthesis.md", "| setting | |"),
    ],
    "exit statuses": [
        ("docs/commands.md", "| exit status | when |"),
    ],
    "settings and sizes of the paper, of its code and of ours": [
        ("docs/asp_clip.md", "| from the paper | from the authors' public code | ours |"),
        ("docs/deviations.md", "| | paper | release | here | why | to restore |"),
    ],
    "sizes of data, as a paper's table or the code that makes them gives them": [
        (
            "docs/asp_clip.md",
            "| source | annotations | pairs in Table 8 | words per caption | seconds per video |",
        ),
        ("docs/pocket.md", "| split | videos | questions | for |"),
    ],
    "numbers of the paper's tables and figures": [
        ("docs/report.md", "| `--tables` | in the paper | what it needs |"),
        ("docs/results/README.md", "| page | what was measured |"),
        (
            "docs/reproduce.md",
            "| in the paper | runs | questions | paper, % | chance of sampling, points |",
        ),
    ],
    "trials that have no record, as their pages say": [
        ("docs/results/paper-tables.md", "| without | right, first answers with the native fallback, % |"),
        (
            "docs/results/paper-tables.md",
            "| without | plans that call a missing module | plans as with all modules | right, first | "
            "right, native fallback |",
        ),
    ],
    "sizes of texts that models read, as their page says how they were counted": [
        ("docs/planners.md", "| `reference` | prompts hold | characters | tokens of Qwen | of pocket |"),
    ],
    "what fits where, in sentences whose figures a record has, and what other projects say of themselves": [
        ("docs/scale.md", "| | 8B | 32B |"),
        ("docs/scale.md", "| | what | on what | source |"),
    ],
    "sizes of what a test or a script tries": [
        ("docs/hardening.md", "| tried | before | now |"),
        ("docs/hardening.md", "| tried | before | now | tests |"),
        ("docs/serve.md", "| tried | reply |"),
        ("docs/status.md", "| part | what it measures |"),
    ],
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
    allowed = {table for tables in _NO_MEASUREMENTS.values() for table in tables}
    bare: Counter[str] = Counter()
    used = set()
    for page in set(pages()) - set(RESULTS.glob("*/*.md")):
        name = str(page.relative_to(ROOT))
        for head, is_marked in tables_of_figures(page):
            if (name, head) in allowed:
                assert not is_marked, f"{name}: {head} names its source; take it off the list"
                used.add((name, head))
            elif not is_marked:
                bare[name] += 1
    assert dict(bare) == _NOT_YET
    assert allowed - used == set()


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


def test_a_merged_planner_writes_and_answers_as_its_adapter_does(tmp_path: Path) -> None:
    extract(RESULTS / "pocket-merged" / "traces.tar.xz", tmp_path, ["adapter", "merged"])
    said = []
    for name in ("adapter", "merged"):
        traces = read_traces(tmp_path / name / "traces.jsonl")
        said.append(
            {
                trace.question_id: [
                    (round.raw, round.execution and round.execution.answer and round.execution.answer.letter)
                    for round in trace.rounds
                ]
                for trace in traces
            }
        )
    assert said[0] == said[1]
    assert len(said[0]) == 22
