"""What README and docs state of what ran where, how long and how good is what the records say.

`<!-- said from FILE: TITLE -->` stands above a paragraph or list that is made of a record
(perf/recorded.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.recorded import MARK, STATEMENT, pages, statement, templates
from perf.stored import parts_measured
from tests.support import ROOT

RAN: dict[str, Any] = yaml.safe_load((ROOT / "perf" / "ran.yaml").read_text(encoding="utf-8"))
GPU: dict[str, Any] = json.loads((ROOT / "perf" / "gpu.json").read_text(encoding="utf-8"))


def marked() -> list[tuple[Path, str, str, str]]:
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        marks = list(STATEMENT.finditer(text))
        assert len(marks) == text.count("<!-- said from "), f"{page}: a mark without its text"
        found += [(page, mark["file"], mark["title"], mark["text"]) for mark in marks]
    return found


@pytest.mark.parametrize(("page", "file", "title", "text"), marked(), ids=lambda value: str(value)[-60:])
def test_a_statement_is_the_recorded_one(page: Path, file: str, title: str, text: str) -> None:
    assert text.split() == statement(file, title).split()


def test_every_template_stands_on_a_page() -> None:
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    marks = [mark for text in texts for kind in (MARK, STATEMENT) for mark in kind.finditer(text)]
    assert templates().keys() - {(mark["file"], mark["title"]) for mark in marks} == set()


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
