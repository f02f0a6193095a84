"""README and docs: lengths, links and anchors, and that the commands and configs they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.config_folders import CONFIGS
from videopro.cli import COMMANDS

DOCS = ROOT / "docs"
README = ROOT / "README.md"
# Made by commands: the reference of modules, and the reports and tables below docs/results.
GENERATED = {DOCS / "modules.md", *(DOCS / "results").glob("*/*.md")}
WRITTEN = [README, *sorted(set(DOCS.rglob("*.md")) - GENERATED)]
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")


def prose_and_code(page: Path) -> Iterator[tuple[int, str, str]]:
    """Each line with its number and the language of the fence that it is in, "-" outside of one."""
    fence = "-"
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fence = (line.strip("` ") or "text") if fence == "-" else "-"
            continue
        yield number, line, fence


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings that a repository browser and the site agree on."""
    found = set()
    for _, line, fence in prose_and_code(page):
        if fence == "-" and line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", line.lstrip("#").strip()).lower()
            kept = re.sub(r"[^\w\s-]", "", title)
            if kept.replace(" ", "-") == re.sub(r"[-\s]+", "-", kept).strip("-"):
                found.add(kept.replace(" ", "-"))
    return found


def commands(page: Path) -> Iterator[str]:
    """Each command line in bash fences, with the lines that continue it, and each code span."""
    shell = "\n".join(line for _, line, fence in prose_and_code(page) if fence == "bash")
    yield from shell.replace("\\\n", " ").splitlines()
    prose = "\n".join(line for _, line, fence in prose_and_code(page) if fence == "-")
    for span in re.findall(r"`([^`]+)`", prose):
        yield " ".join(span.split())


def named_commands(page: Path) -> set[str]:
    """The names after `videopro` in a page's commands."""
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in commands(page)]
    return {name for line in lines for name in re.findall(r"(?:^|\s)videopro ([a-z][a-z-]*)(?=\s|$)", line)}


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_wraps_at_110(page: Path) -> None:
    long = [
        f"{number}: {line}"
        for number, line, fence in prose_and_code(page)
        if fence == "-" and len(line) > 110 and not line.startswith(("|", "<!--", "!["))
    ]
    assert long == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = "\n".join(line for _, line, fence in prose_and_code(page) if fence == "-")
    broken = []
    for link in _LINK.finditer(text):
        if "://" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        is_there = target.is_relative_to(ROOT) and target.exists()
        if not is_there or (link["anchor"] and link["anchor"] not in anchors(target)):
            broken.append(link[0])
    assert broken == []


def test_the_names_of_commands_are_found_in_text() -> None:
    """What the check below sees, on a page whose commands are known."""
    assert {"ask", "compare", "view"} <= named_commands(DOCS / "quickstart.md") | named_commands(README)
    assert "on" not in named_commands(DOCS / "view.md")


def test_commands_exist_and_all_are_listed() -> None:
    known = {name.split()[0] for name in COMMANDS}
    known_typos = {"aks"}  # What docs/results/first-use.md shows the error of.
    unknown = {str(page.relative_to(ROOT)): named_commands(page) - known - known_typos for page in WRITTEN}
    assert {page: names for page, names in unknown.items() if names} == {}
    assert known - named_commands(DOCS / "commands.md") == set()


def test_configs_exist() -> None:
    missing, found = [], 0
    for page in WRITTEN:
        for line in commands(page):
            name = re.search(r"--config ([\w.-]+)(?=\s|$)", line)
            which = re.search(r"videopro(?:\.train\.|[ .])([a-z-]+)", line)
            if name is None or name[1].isupper() or which is None:
                continue
            found += 1
            if not (ROOT / "configs" / CONFIGS[which[1]] / f"{name[1]}.yaml").exists():
                missing.append(f"{page.name}: {line}")
    assert missing == []
    assert found >= 10


def test_building_the_site_deletes_no_other_files(tmp_path: Path) -> None:
    kept = tmp_path / "thesis.md"
    kept.write_text("Chapter 1")
    done = subprocess.run(
        [sys.executable, str(ROOT / "launch" / "docs.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"{tmp_path} holds other files" in done.stderr
    assert kept.read_text() == "Chapter 1"
