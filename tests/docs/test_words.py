"""One voice: words that no message, help text, docstring or page uses, each with the field's word."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

INSTEAD = {
    r"films?": "video",
    r"whoever": "anyone who, or name the client",
    r"(?:is|are|was|were) told|told apart": "reports, receives, distinguishes",
    r"(?:of )?one's own": "your own",
    r"beside|besides (?:it|them|the (?:file|video|film))": "next to, with, in addition to",
    r"goes on|went on": "continues, resumes",
    r"lies (?:in|below|beside)|lie (?:in|below|beside)": "is in",
    r"what answers": "the model",
    r"(?:stays?|returned|left) as (?:it|they) (?:is|are|was|were)": "does not change, unchanged",
    r"pip install '?videopro": "pip install -e . (no registry has the package)",
}
WRONG = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)
PRODUCTION = [
    path
    for room in ("videopro", "modules", "train", "data_synthesis")
    for path in sorted((ROOT / room).rglob("*.py"))
    # `videopro` has links to the other rooms. Prompts are what models read, and pocket's videos speak.
    if not any(part.is_symlink() for part in path.parents)
    and not {"prompts", "pocket"} & {*path.relative_to(ROOT).parts}
]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that have several words: docstrings, messages, help, titles."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def found(lines: Iterator[tuple[int, str]]) -> list[str]:
    return [f"{number}: {match[0]}" for number, text in lines for match in WRONG.finditer(text)]


@pytest.mark.parametrize("room", ["videopro", "modules", "train", "data_synthesis"])
def test_messages_and_docstrings_use_the_words_of_the_field(room: str) -> None:
    paths = [path for path in PRODUCTION if path.relative_to(ROOT).parts[0] == room]
    assert len(paths) >= 5
    wrong = {str(path.relative_to(ROOT)): found(texts(path)) for path in paths}
    assert {name: words for name, words in wrong.items() if words} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    assert found(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)) == []
