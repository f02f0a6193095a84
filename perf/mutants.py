"""Whether the tests notice faults: mutants of production lines, and faults that this project once had.

    python -m perf.mutants                      draws mutants, and tries them and the past faults on HEAD
    python -m perf.mutants --commit NAME        on another commit; those in the file are taken, none are drawn
    python -m perf.mutants --only 17,reading    some of them again, by number or name

A mutant is one operator of cosmic-ray on one line; lines are drawn by room, in proportion to its code. The
past faults are in perf/past_faults.yaml. For each, tests of the first tier run until one fails: those that
import the file, those of its room, nearest first, and the table of what commands say. A test that fails
without the mutant catches nothing. The limit is in seconds of the processor, since several run at once.
Killed, it goes on where it was.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import yaml

from launch.code_budget import rooms
from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting
from videopro.errors import ConfigError

OPERATORS = (
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("NumberReplacer", "ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ExceptionReplacer", "ReplaceUnaryOperator_Delete_Not"),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")),
)
"""Of cosmic-ray; the others change an operator into one that the types do not have."""
PAST = ROOT / "perf" / "past_faults.yaml"
_OF_FILES = ("TYPE_CHECKING", "__name__ == '__main__'")
WALL_TO_CPU = 3
"""Wall seconds that tests may take for each second of the limit: some wait."""


@dataclass(frozen=True)
class MutantsSettings:
    """Try whether tests notice faults."""

    commit: str = field(default="HEAD", metadata=setting("the state whose tests are tried"))
    count: int = field(default=60, metadata=setting("mutants to draw, if the file has none"))
    seed: int = field(default=0, metadata=setting("of the draw"))
    seconds: int = field(default=180, metadata=setting("of the processor for one mutant"))
    side_by_side: int = field(default=2, metadata=setting("mutants that are tried at once"))
    only: tuple[str, ...] = field(default=(), metadata=setting("names of those to try, again if need be"))
    output: Path = field(default=ROOT / "perf" / "mutants.json", metadata=setting("JSON file"))


def draw(root: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """`count` mutants of one line each, from the rooms in proportion to their lines of code."""
    lots = random.Random(seed)
    sizes = rooms(root)
    drawn = []
    # A systematic sample: each room has its share, rounded by chance.
    step = sizes.total() / count
    places = [(number + lots.random()) * step for number in range(count)]
    for place in places:
        passed = 0
        for room in sorted(sizes):
            passed += sizes[room]
            if place < passed:
                break
        while True:
            mutant = _mutant(root, room, lots)
            if mutant is not None and mutant not in drawn:
                drawn.append(mutant)
                break
    return [{"name": str(number), **mutant} for number, mutant in enumerate(drawn)]


def _mutant(root: Path, room: str, lots: random.Random) -> dict[str, Any] | None:
    """One mutant of a line of the room that is drawn; None if no operator changes that line."""
    from cosmic_ray.mutating import mutate_code

    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / room).glob("*.py" if room in ("videopro", "train") else "**/*.py"))
    }
    file, line = lots.choice([(name, n) for name in texts for n in range(len(texts[name].splitlines()))])
    found = [] if line in _unmutable(texts[file]) else _changes(texts[file]).get(line, [])
    if not found:
        return None
    lines = texts[file].splitlines()
    new = (mutate_code(texts[file], *lots.choice(found)) or "").splitlines()
    changed = [number for number, (was, now) in enumerate(zip(lines, new, strict=False)) if was != now]
    if len(new) != len(lines) or len(changed) != 1:
        return None
    (at,) = changed
    if new[at].strip() == "/,":  # `*,` of a signature, for a product
        return None
    return {
        "room": room,
        "file": file,
        "before": lines[at],
        "nth": lines[:at].count(lines[at]),
        "after": new[at],
    }


@lru_cache
def _changes(text: str) -> dict[int, list[tuple[Any, int]]]:
    """The operators that change a file, with the number of the place, by line from 0."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    found = defaultdict(list)
    nodes = list(ast_nodes(get_ast(text)))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for number, (line, _) in enumerate(starts):
            found[line - 1].append((operator, number))
    return dict(found)


def _unmutable(text: str) -> set[int]:
    """Lines, from 0, of which mutants would change words alone, or nothing that a test could see: errors,
    signatures (an operator takes their `*` for a product), and how a file starts as a program."""
    parts: list[ast.stmt | ast.arg] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            parts += [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.If) and ast.unparse(node.test) in _OF_FILES
        ):
            parts.append(node)
    return {line - 1 for part in parts for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)}


def mutated(text: str, mutant: dict[str, Any]) -> str | None:
    """The file with the fault; None if it has not the line, or the lines, that the fault changes."""
    if "nth" not in mutant:
        return text.replace(mutant["before"], mutant["after"]) if text.count(mutant["before"]) == 1 else None
    lines = text.splitlines(keepends=True)
    same = [number for number, line in enumerate(lines) if line.rstrip("\n") == mutant["before"]]
    if len(same) <= mutant["nth"]:
        return None
    lines[same[mutant["nth"]]] = mutant["after"] + "\n"
    return "".join(lines)


def related_tests(root: Path, file: str) -> list[str]:
    """The files of tests to run for a file of production: see the module's docstring."""
    # `modules`, `train` and `data_synthesis` are linked into the package.
    inside = file if file.startswith("videopro/") else f"videopro/{file}"
    module = inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package = module.rpartition(".")[0]
    # A folder's face passes on names of the files in it.
    face = root / Path(file).parent / "__init__.py"
    passed_on = {
        (package, name.asname or name.name)
        for node in ast.walk(ast.parse(face.read_text(encoding="utf-8") if face.exists() else ""))
        if isinstance(node, ast.ImportFrom) and node.module == module
        for name in node.names
    }
    parts = Path(file.removeprefix("videopro/")).parent.parts
    folders = [root.joinpath("tests", *parts[:depth]) for depth in range(len(parts), -1, -1)]
    room = [
        path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.glob("test_*.py") if folder.name == "tests" else folder.rglob("test_*.py"))
        if folder.name != "tests" or not parts
    ]
    importing = [
        path
        for path in sorted((root / "tests").rglob("test_*.py"))
        if _imports(path.read_text(encoding="utf-8"), module, passed_on)
    ]
    room_first = sorted(importing, key=lambda path: path not in room)
    # What commands say of mistakes is a table for all rooms.
    messages = sorted((root / "tests" / "messages").glob("test_*.py"))
    found = dict.fromkeys([*room_first, *room, *messages])
    return [path.relative_to(root).as_posix() for path in found]


def _imports(text: str, module: str, passed_on: set[tuple[str, str]]) -> bool:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(name.name == module for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (
            node.module == module
            or any(
                f"{node.module}.{name.name}" == module or (node.module, name.name) in passed_on
                for name in node.names
            )
        ):
            return True
    return False


@contextlib.contextmanager
def checkouts(commit: str, count: int) -> Iterator[queue.SimpleQueue[Path]]:
    """Work trees of a commit, for one mutant at a time each."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / f"checkout{number}" for number in range(count)]
        try:
            for place in places:
                _git("worktree", "add", "--quiet", "--detach", str(place), commit)
                free.put(place)
            yield free
        finally:
            for place in places:
                _git("worktree", "remove", "--force", str(place))


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def attempt(root: Path, mutant: dict[str, Any], seconds: int) -> dict[str, Any]:
    """What comes of one mutant in a checkout: {"outcome": "caught", "by": TEST}, or "not caught", "no time",
    "no such line", and the seconds that it took."""
    path = root / mutant["file"]
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    after = mutated(before, mutant)
    if after is None:
        return {"outcome": "no such line"}
    files = related_tests(root, mutant["file"])
    spent = 0.0
    broken: list[str] = []
    try:
        while True:
            path.write_text(after, encoding="utf-8")
            status, failed, used = _pytest(
                root, [*files, *(f"--deselect={name}" for name in broken)], seconds
            )
            spent += used
            if status is None or not failed:
                ends = {None: "no time", 0: "not caught", 5: "not caught"}
                # Any other status without a test that failed says nothing of the tests.
                outcome = ends.get(status, f"pytest ended with status {status}")
                return {"outcome": outcome, "cpu_s": round(spent, 1)}
            path.write_text(before, encoding="utf-8")
            if not _pytest(root, [failed], seconds)[1]:
                return {"outcome": "caught", "by": failed, "cpu_s": round(spent, 1)}
            broken.append(failed)
    finally:
        path.write_text(before, encoding="utf-8")


def _pytest(root: Path, arguments: Sequence[str], seconds: int) -> tuple[int | None, str, float]:
    """The exit status of tests up to the first failure (None: out of time), what failed, and the seconds of
    the processor."""
    tier = "".join(re.findall(r'^ *tests\+?="(.+)"$', (root / "launch" / "test.sh").read_text(), re.M))
    command = [sys.executable, "-m", "pytest", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*command, "-m", tier, *arguments],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        used, start = 0.0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.5)
            used = max(used, _cpu(process.pid))
            if used > seconds or time.monotonic() - start > WALL_TO_CPU * seconds:
                break
        status = process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$", output.read(), re.M)
    return status, failed[1] if failed else "", used


def _cpu(pid: int) -> float:
    """Seconds of a process and of all that it started, ended or not."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (parent := psutil.Process(pid), *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
    return total


def measure(given: MutantsSettings) -> None:
    """Draw the mutants if the file has none, and try on the commit those that were not tried. Raises
    ConfigError for a name that no mutant has."""
    record: dict[str, Any] = {"seed": given.seed, "seconds": given.seconds, "states": {}}
    if given.output.exists():
        record = json.loads(given.output.read_text(encoding="utf-8"))
    commit = _git("rev-parse", "--short", given.commit).strip()
    with checkouts(commit, given.side_by_side) as free:
        if "mutants" not in record:
            root = free.get()
            record |= {"drawn_at": commit, "mutants": draw(root, given.count, given.seed)}
            free.put(root)
        past = yaml.safe_load(PAST.read_text(encoding="utf-8"))
        faults = {fault["name"]: fault for fault in [*record["mutants"], *past]}
        if unknown := set(given.only) - set(faults):
            raise ConfigError(f"no mutant is called {min(unknown)!r}; names: {', '.join(faults)}")
        outcomes = record["states"].setdefault(commit, {})
        todo = given.only or [name for name in faults if name not in outcomes]

        def one(name: str) -> tuple[str, dict[str, Any]]:
            root = free.get()
            try:
                return name, attempt(root, faults[name], record["seconds"])
            finally:
                free.put(root)

        with ThreadPoolExecutor(given.side_by_side) as pool:
            for name, outcome in pool.map(one, todo):
                outcomes[name] = outcome
                print(f"{name}: {faults[name]['file']}: {outcome}", flush=True)
                write_record(given.output, record)
    print_tables("perf/mutants.json", record)


if __name__ == "__main__":
    run_command(MutantsSettings, measure, "stopped; what was tried before is kept")
