"""Tables that list commands, extras, configs, exit statuses and the like have all of them, and no others."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from videopro import benchmarks, methods
from videopro.cli import COMMANDS
from videopro.methods.planners import check_planner

DOCS = ROOT / "docs"
# Set by launchers for the processes that they start, not by users.
LAUNCHERS = {
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("ACCELERATE_USE_DEEPSPEED", "CUDA_VISIBLE_DEVICES"),
}


def rows(page: Path, head: str) -> list[list[str]]:
    """The cells of the table on a page whose head begins like this."""
    text = page.read_text(encoding="utf-8")
    start = text.index(f"\n| {head}")
    lines = text[start + 1 :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def first_cells(page: Path, head: str) -> list[str]:
    """The names in backticks in the first column."""
    return [name for cells in rows(page, head) for name in re.findall(r"`([^`]+)`", cells[0])]


def test_commands() -> None:
    listed = {
        cells[0].strip("`").removeprefix("videopro "): cells
        for cells in rows(DOCS / "commands.md", "command")
    }
    groups = defaultdict(set)
    for name in COMMANDS:
        group, _, own = name.partition(" ")
        groups[group].add(own)
    assert set(listed) == set(groups)
    for group, own in groups.items():
        named = set(re.findall(r"`([a-z-]+)`", listed[group][1]))
        assert own == {""} or named == own, group


def test_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = first_cells(DOCS / "quickstart.md", "extra")
    assert sorted(listed) == sorted(extras)


def test_shipped_configs() -> None:
    listed: dict[str, set[str]] = defaultdict(set)
    for configs, commands, *_ in rows(DOCS / "commands.md", "shipped configs"):
        for command in re.findall(r"`videopro ([a-z-]+)`", commands):
            listed[command] |= set(re.findall(r"`([^`]+)`", configs))
    commands = {"synthesis": "synthesize", "retrieval": "asp-clip"}
    shipped: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "configs").glob("*/*.yaml"):
        shipped[commands.get(path.parent.name, path.parent.name)].add(path.stem)
    assert shipped.pop("accelerate"), "whose files are the launch scripts'"
    assert listed == shipped


def test_environment_variables() -> None:
    listed = set(first_cells(DOCS / "commands.md", "environment variable"))
    read = set()
    for package in ("videopro", "modules", "train", "data_synthesis"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            read |= set(re.findall(r"\bos\.environ(?:\.get\(|\[)\"([A-Z_]+)\"", text))
    # The rest of wandb's own, and where its library looks for a key.
    read -= {name for name in read if name.startswith("WANDB_") and name != "WANDB_PROJECT"} | {"NETRC"}
    assert read - LAUNCHERS <= listed
    # The others are read by libraries, or by a name that a constant or a setting has.
    proxies = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"}
    assert listed - read <= proxies | {"HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("page", "head"), [(ROOT / "README.md", "`--method`"), (DOCS / "methods" / "README.md", "method |")]
)
def test_methods(page: Path, head: str) -> None:
    assert sorted(set(first_cells(page, head))) == sorted(methods.METHODS.ours())


def test_benchmarks() -> None:
    listed = first_cells(DOCS / "benchmarks.md", "name | splits")
    assert sorted([*listed, "pocket", "jsonl"]) == sorted(benchmarks.BENCHMARKS.ours())


def test_fields_of_a_benchmark_item() -> None:
    page = DOCS / "own-benchmarks.md"
    assert first_cells(page, "field of `Item`") == [field.name for field in fields(benchmarks.Item)]
    # The page says how many are needed.
    required = [field for field in fields(benchmarks.Item) if is_required(field)]
    assert len(required) == 4
    assert "The first four fields are needed" in page.read_text(encoding="utf-8")


def is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def test_planners() -> None:
    for spec in first_cells(DOCS / "planners.md", "`--planner`"):
        check_planner(
            spec.replace("[@URL]", "@http://localhost:8000/v1").replace("@URL", "@http://localhost/v1")
        )
