"""How many of the project's files a question crosses on its way to its trace, and a GRPO row to its reward.

    python perf/crossings.py [--output FILE]

Runs one question of the pocket test split, native and by a program of the shipped planner, and counts the
files in which a function of the project runs from the moment a worker looks for work until the trace is on
the disk. For GRPO: one row with a reply that crops and asks, from reading the file until the rewards are
returned. What runs inside the sandbox's own process is not counted.

`core` leaves out what a reader takes as given: the insides of the model, the decoder, the sandbox and the
modules' models. `stops` also leaves out files, processes and Python's own parser (`storage`, `processes`,
`python_syntax`), and counts a package once if the packages beside it import only what its `__init__` offers:
its docstring and names say enough to read on. The packages that the way is about (`runner`, `methods`,
`reasoning`; `train.rl` and `train.rewards`) count file by file.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.recording import write_record
from perf.structure import imports
from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.benchmarks import Benchmark, Item
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.modules import ModuleModels, ModuleSettings
from videopro.runner import WorkerJob, run_worker
from videopro.runs import RunFolder
from videopro.settings import setting
from videopro.train.rewards import ProgramRewards
from videopro.train.rl import as_dataset, read_grpo_rows
from videopro.work import units

FOLDERS = ("videopro", "modules", "train", "data_synthesis")
INSIDES = ("videopro/backbones/qwen/", "videopro/video/decoding/", "videopro/executor/", "modules/models/")
PLUMBING = ("videopro/storage/", "videopro/processes/", "videopro/python_syntax.py")
READ_WHOLE = (
    *("videopro.runner", "videopro.methods", "videopro.reasoning"),
    *("videopro.train.rl", "videopro.train.rewards"),
)
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "native": ({}, {}),
    "videopro": ({"temperature": 0.0}, {"adapter": "pocket-sft"}),
}


@dataclass(frozen=True)
class CrossingSettings:
    """Where the counts go."""

    output: Path | None = field(default=None, metadata=setting("JSON file for the counts; unset: print them"))


COMMAND = CommandLine(
    "perf.crossings",
    CrossingSettings,
    summary="Count the files that a question crosses to its trace.",
)

# Opens the video, picks frames in the middle and asks about them.
REPLY = """<planning>One look at the middle is enough.</planning>
<code>
def execute_command(video, question, choices):
    frames = trim_frames(video, 1.0, 5.0, num_frames=4)
    return query_mc(frames, question, choices)
</code>"""


class _Silent:
    def answering(self, ids: Sequence[str]) -> None:
        """Nothing to report to."""

    def doing(self, counts: Mapping[str, int]) -> None:
        """Not looked at."""


@contextmanager
def files_run() -> Iterator[set[str]]:
    """The project's files, relative to the checkout, in which a function runs inside the block. The set is
    filled at its end."""
    seen: set[str] = set()
    files: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = {Path(name).resolve() for name in seen if name.endswith(".py")}
    inside = {str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)}
    files.update(name for name in inside if name.startswith(FOLDERS))


def packages_with_faces(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """The packages of which no file is imported from outside their part of `videopro` (its direct
    subpackage), given the modules that each module imports."""
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
    """The files, and the packages in `faces` instead of their files, but for those that are read whole."""
    found = set()
    for file in files:
        name = file if file.startswith("videopro/") else f"videopro/{file}"
        package = name.rpartition("/")[0].replace("/", ".")
        found.add(package if package in faces and package not in READ_WHOLE else file)
    return sorted(found)


def read_by_stops(files: Iterable[str], faces: Iterable[str]) -> list[str]:
    """What of these files a reader follows: `stops` of those that are not taken as given."""
    return stops((name for name in files if not name.startswith((*INSIDES, *PLUMBING))), faces)


def question_to_trace(method: str, item: Item, benchmark: Benchmark) -> set[str]:
    """The files that a question crosses by a method."""
    options, backbone_settings = SETTINGS[method]
    backbone = load_backbone("pocket", **backbone_settings)
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder(Path(temporary) / "run")
        key = folder.open({}, {"crossings": method})
        job = WorkerJob(folder, key, tuple(units([item])), benchmark.protocol, 0)
        answering = methods.create(method, options)
        with files_run() as files:
            run_worker(job, answering, backbone, _Silent())
    backbone.close()
    return files


def row_to_reward(item: Item) -> set[str]:
    """The files that a row of a grpo.jsonl crosses, with a reply, until its rewards are there."""
    backbone = load_backbone("pocket")
    question = item.question
    row = {
        "id": "crossings/plan",
        "kind": "plan",
        "prompt": question.text,
        "video": str(item.video.absolute()),
        "question": question.text,
        "choices": list(question.choices),
        "answer": item.answer,
        "oracle_mode": "program",
    }
    completions = [[{"role": "assistant", "content": REPLY}]]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "grpo.jsonl"
        path.write_text(json.dumps(row) + "\n")
        models = ModuleModels(ModuleSettings(), pocket=True)
        with files_run() as files, ProgramRewards(backbone, modules=models) as rewards:
            columns = as_dataset(read_grpo_rows(path).rows).to_dict()
            prompts = columns.pop("prompt")
            values = [
                function(prompts, completions, [list(range(40))], **columns) for function in rewards.functions
            ]
    backbone.close()
    if any(value != [1.0] for value in values[1:]):
        raise SystemExit(f"the reply was not run as a program: rewards {values}")
    return files


def count(given: CrossingSettings) -> None:
    """Print the counts and the files as JSON, or write them."""
    benchmark = benchmarks.load("pocket", split="test")
    (item,) = benchmark.select(limit=1)
    if benchmark.fetch is not None:
        benchmark.fetch([item])
    crossed = {
        f"question to trace, {method}": question_to_trace(method, item, benchmark) for method in SETTINGS
    }
    crossed["GRPO row to reward"] = row_to_reward(item)
    if not all(crossed.values()):
        raise SystemExit(f"no file of {ROOT} was run: another checkout's videopro is imported")
    faces = packages_with_faces(imports(ROOT))
    found = []
    for way, files in crossed.items():
        core = sorted(name for name in files if not name.startswith(INSIDES))
        stopped = read_by_stops(files, faces)
        counts = {"files": len(files), "core": len(core), "stops": len(stopped)}
        found.append({"way": way, **counts, "stops_at": stopped, "core_files": core})
    if given.output is not None:
        write_record(given.output, found)
    else:
        for figures in found:
            print(json.dumps(figures, indent=1))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped") as status:
        count(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
