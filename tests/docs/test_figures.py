"""Figures in sentences: each is in a table of its page or in the record that the sentence names.

`<!-- figures of FILE, FILE -->` stands above a paragraph or a list and names its records, relative to the
repository. Figures are numbers with a decimal point; whole numbers are mostly sizes and settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perf.recorded import STATEMENT, pages
from tests.support import ROOT

GENERATED = {ROOT / "docs" / "modules.md", *(ROOT / "docs" / "results").glob("*/*.md")}
WRITTEN = sorted(set(pages()) - GENERATED)

# Figures that nobody here measured, by page and by what they are.
_GIVEN: dict[str, dict[str, str]] = {
    "settings and thresholds": {
        "docs/grpo.md": "0.45 0.7 0.75 0.85",
        "docs/methods/videoagent.md": "0.5",
        "docs/models.md": "0.7 0.75",
        "docs/results/official-scorers.md": "0.7",
        "docs/view.md": "4.5",
    },
    "sizes of files and models": {
        "docs/pocket.md": "1.5 1.6 7.6",
        "docs/results/pocket-model.md": "1.6",
        "docs/results/sft.md": "1.7",
        "docs/serving.md": "3.5",
        "docs/sft.md": "9.6",
    },
    "the papers' own": {
        "docs/methods/lvagent.md": "33.6 38.7 31.6 90.5",
        "docs/methods/vca.md": "3.0 1.28 0.60 1.75",
        "docs/results/grpo.md": "61.2 65.0 66.8 68.8",
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
