"""The files that a question crosses on its way to its trace, and a GRPO row to its rewards; and the types
that a reply passes on the way.

One question of the pocket test split is answered by `videopro infer`, native and by a program of the shipped
planner, and one row of a grpo.jsonl is rewarded, in processes of the checkout that is counted. A file counts
if a function of it is called between the worker's search for work and the trace on the disk. What runs inside
the sandbox's own process does not count. A type counts if it is a data class, one is made on the way, and it
holds the reply's text as it is in the trace, in one of its fields or of their fields.

`stops` are the places that a reader follows. They leave out what a reader takes as it is: the insides of the
model, the decoder, the sandbox and the modules' models, and files, processes, what a worker reports to, and
Python's own parser. A package counts once if the packages beside it import only what its `__init__` offers:
its docstring and names say enough to read on. The packages that the way is about count file by file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopro.errors import ConfigError

# The folders of 0507bb4, and where they have moved since.
INSIDES = (
    *("videopro/backbones/qwen/", "videopro/video/decoding/", "videopro/executor/", "modules/models/"),
    # A plug-in, of which the way asks its objects alone.
    "videopro/pocket/",
)
PLUMBING = (
    *("videopro/storage/", "videopro/processes/", "videopro/cli/"),
    # What a name stands for.
    "videopro/plugins.py",
    # Whose error an exception is.
    "videopro/errors/",
    *("videopro/python_syntax.py", "videopro/executor/parsing.py"),
    # What a worker reports to.
    *("videopro/runner/supervisor.py", "videopro/runs/making/supervisor.py"),
)
# Parsing a program is on the way, wherever it lies.
FOLLOWED = ("videopro/executor/parsing.py", "videopro/executor/parsing.py")
BY_FILE = (
    *("videopro.runner", "videopro.runs.making"),
    *("videopro.methods", "videopro.reasoning", "videopro.methods.program"),
    *("videopro.train.rl", "videopro.train.rewards"),
)
# The function that answers all of a worker's questions.
WORKER = "run_worker"
FOLDERS = ("videopro/", "modules/", "train/", "data_synthesis/")

_TRACED = Path(__file__).resolve().parent / "traced"
_INFER = ("-m", "videopro", "infer", "--benchmark", "pocket", "--split", "test", "--limit", "1")


@dataclass(frozen=True)
class Way:
    """What was called on a way."""

    name: str
    files: list[str]
    types: dict[str, list[str]]
    """By the reply, "plan" or "answer": the types that hold it."""


def ways(root: Path) -> list[Way]:
    """The ways of a checkout. Raises ConfigError if one of them cannot be gone to its end."""
    by_program = ("--backbone", "adapter=pocket-sft", "--options", "temperature=0.0")
    return [
        _question(root, "native"),
        _question(root, "videopro", by_program),
        _way(root, "GRPO row to reward", "rewarded", [str(_TRACED / "grpo_row.py")]),
    ]


def _question(root: Path, method: str, options: Sequence[str] = ()) -> Way:
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        arguments = [*_INFER, "--model", "pocket", "--method", method, *options, "--output", str(run)]
        return _way(root, f"question to trace, {method}", WORKER, arguments, run / "traces.jsonl")


def _way(root: Path, name: str, function: str, arguments: Sequence[str], traces: Path | None = None) -> Way:
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "traced.json"
        traced = {"HOUSE_FUNCTION": function, "HOUSE_ROOT": str(root), "HOUSE_OUTPUT": str(output)}
        path = {"PYTHONPATH": os.pathsep.join([str(_TRACED), str(root)])}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=root,
            env={**os.environ, **traced, **path},
            capture_output=True,
            text=True,
        )
        if done.returncode or not output.exists():
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise ConfigError(f"{root}: {name}: {function} was not run to its end ({last})")
        way = way_of(name, output, traces)
    if not way.files:
        raise ConfigError(f"{root}: {name}: no file of it was run; another checkout's videopro is imported")
    return way


def way_of(name: str, output: Path, traces: Path | None = None) -> Way:
    """The way as a `CallTrace` has written it, and the file with the trace of its question, if it is one."""
    record = json.loads(output.read_text(encoding="utf-8"))
    replies = _replies(json.loads(traces.read_text(encoding="utf-8"))) if traces is not None else {}
    types = {
        reply: [kind for kind, texts in record["texts"].items() if text in texts]
        for reply, text in replies.items()
    }
    return Way(name, [file for file in record["files"] if file.startswith(FOLDERS)], types)


def _replies(trace: Mapping[str, Any]) -> dict[str, str]:
    """The replies in a trace: the one that wrote the program, if any, and the one that answers."""
    first = trace["rounds"][0]
    plan = {"plan": first["raw"]} if first["program"] else {}
    return {**plan, "answer": first["execution"]["answer"]["raw"]}


def packages_with_faces(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """The packages of which no file is imported from outside their part of `videopro` (its direct
    subpackage), by the modules that each module imports."""
    packages = {name.rpartition(".")[0] for name in graph} - {"", "videopro"}

    def part(name: str) -> list[str]:
        return name.split(".")[:2]

    past = {
        target.rpartition(".")[0]
        for name, targets in graph.items()
        for target in targets
        if target not in packages and part(name) != part(target)
    }
    return packages - past


def stops(files: Iterable[str], faces: Iterable[str]) -> list[str]:
    """The files that a reader follows, and the packages in `faces` instead of their files, but for those that
    are read whole."""
    stopped = set()
    for file in files:
        if file.startswith((*INSIDES, *PLUMBING)) and file not in FOLLOWED:
            continue
        name = file if file.startswith("videopro/") else f"videopro/{file}"
        package = name.rpartition("/")[0].replace("/", ".")
        stopped.add(package if package in faces and package not in BY_FILE else file)
    return sorted(stopped)
