"""README and docs: lengths, links, anchors; what they, scripts and configs name of the code exists;
tables that list commands, extras, configs, exit statuses and the like have all of them, and no others."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro import benchmarks, methods
from videopro.cli import COMMANDS
from videopro.methods.planners import check_planner

DOCS = ROOT / "docs"
README = ROOT / "README.md"
# Made by commands: the reference of modules, and the reports and tables below docs/results.
BY_HAND = (DOCS / "results" / "methods").glob("*.md")
GENERATED = {DOCS / "reference" / "modules.md", *(DOCS / "results").glob("*/*.md")} - {*BY_HAND}
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


def test_commands_exist_and_all_are_listed() -> None:
    known = {name.split()[0] for name in COMMANDS}
    known_typos = {"aks"}  # What docs/results/first-use.md shows the error of.
    unknown = {str(page.relative_to(ROOT)): named_commands(page) - known - known_typos for page in WRITTEN}
    assert {page: names for page, names in unknown.items() if names} == {}
    assert known - named_commands(DOCS / "reference" / "commands.md") == set()
    # What is seen, on a page whose commands are known.
    assert {"ask", "compare", "view"} <= named_commands(README)


def test_configs_exist() -> None:
    missing, found = [], 0
    for page in WRITTEN:
        for line in commands(page):
            name = re.search(r"--config ([\w.-]+)(?=\s|$)", line)
            which = re.search(r"videopro(?:\.train\.|[ .])([a-z-]+)", line)
            if name is None or name[1].isupper() or which is None:
                continue
            found += 1
            folder = {"synthesize": "synthesis", "asp-clip": "retrieval"}.get(which[1], which[1])
            if not (ROOT / "configs" / folder / f"{name[1]}.yaml").exists():
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
    assert f"{tmp_path} contains other files" in done.stderr
    assert kept.read_text() == "Chapter 1"


# ---- tables that list something ------------------------------------------------------------------------

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
        for cells in rows(DOCS / "reference" / "commands.md", "command")
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
    listed = first_cells(DOCS / "index.md", "extra")
    assert sorted(listed) == sorted(extras)


def test_shipped_configs() -> None:
    listed: dict[str, set[str]] = defaultdict(set)
    for configs, commands, *_ in rows(DOCS / "reference" / "commands.md", "shipped configs"):
        for command in re.findall(r"`videopro ([a-z-]+)`", commands):
            listed[command] |= set(re.findall(r"`([^`]+)`", configs))
    commands = {"synthesis": "synthesize", "retrieval": "asp-clip"}
    shipped: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "configs").glob("*/*.yaml"):
        shipped[commands.get(path.parent.name, path.parent.name)].add(path.stem)
    assert shipped.pop("accelerate"), "whose files are the launch scripts'"
    assert listed == shipped


def test_environment_variables() -> None:
    listed = set(first_cells(DOCS / "reference" / "commands.md", "environment variable"))
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


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "ask.md"])
def test_methods(page: Path) -> None:
    assert sorted(set(first_cells(page, "`--method`"))) == sorted(methods.METHODS.ours())


def test_benchmarks() -> None:
    listed = first_cells(DOCS / "benchmark.md", "name | splits")
    assert sorted([*listed, "pocket", "jsonl"]) == sorted(benchmarks.BENCHMARKS.ours())


def test_fields_of_a_benchmark_item() -> None:
    page = ROOT / "CONTRIBUTING.md"
    assert first_cells(page, "field of `Item`") == [field.name for field in fields(benchmarks.Item)]
    # The page says how many are needed.
    defaults = [{field.default, field.default_factory} for field in fields(benchmarks.Item)]
    assert defaults.count({MISSING}) == 4
    assert "The first four fields of `Item` are needed" in page.read_text(encoding="utf-8")


def test_planners() -> None:
    for spec in first_cells(DOCS / "extend.md", "`--planner`"):
        check_planner(
            spec.replace("[@URL]", "@http://localhost:8000/v1").replace("@URL", "@http://localhost/v1")
        )


# ---- names of the code -------------------------------------------------------------------------------------

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
        # docs/results/hardening.md names tests relative to tests/, some of them in tests/docs or tests/train.
        if path not in EXAMPLES and not any(ROOT.glob(path)) and not (ROOT / "tests" / path).exists():
            yield path


def paragraphs_of_today(page: Path) -> str:
    """A page without the paragraphs that say where something stood until it went."""
    paragraphs = page.read_text(encoding="utf-8").split("\n\n")
    return "\n\n".join(each for each in paragraphs if not re.search(r"last stood\s+at commit", each))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    """In code spans and fences; tests that docs/results/hardening.md names stand relative to tests/."""
    fence = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    text = paragraphs_of_today(page)
    spans = re.findall(r"`([^`]+)`", fence.sub("", text))
    tests = {span.removeprefix("tests/") for span in spans if re.fullmatch(r"(\w+/)*test_\w+\.py", span)}
    missing = {*missing_names("\n".join([*spans, *fence.findall(text)]))}
    assert missing | {test for test in tests if not any((ROOT / "tests").rglob(test))} == set()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ROOT)))
def test_what_a_script_or_config_names_exists(script: Path) -> None:
    # Groups of entry points are no modules.
    text = re.sub(r"entry-points\.\"[\w.]+\"", "", script.read_text(encoding="utf-8"))
    assert sorted(set(missing_names(text))) == []


def test_the_floors_of_the_architecture_are_those_of_the_contract() -> None:
    text = (ROOT / "docs" / "results" / "house.md").read_text(encoding="utf-8")
    picture = [line.split() for line in text.split("```")[1].strip().splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    # Above them are the doors.
    floors = [[name.removeprefix("videopro.") for name in re.split(r" [|:] ", layer)] for layer in layers[1:]]
    assert [sorted(floor) for floor in picture] == [sorted(floor) for floor in floors]
    table = re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE)
    assert table == [name for floor in picture for name in floor]
