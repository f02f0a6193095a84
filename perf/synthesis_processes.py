"""Compares one `videopro synthesize` with two at the same time on one folder, each on a core of its own.

    python perf/synthesis_processes.py [--questions 120] [--rounds 3] [--output FILE]

The questions are the first of pocket's train split, with the shipped settings (`--config pocket`): the
offline teacher, three programs a question, the pocket model. Each command has one core, as it would have a
GPU of its own. Its time is that of the whole command, with loading the model. The videos are made before. One
round runs both ways once; a figure is the median over the rounds, and the datasets of both ways are compared
byte for byte. `cpu_s` is the CPU time of the commands together. Writes perf/synthesis_processes.json.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.child import ChildFailed
from perf.decoders import versions
from perf.recording import write_record
from perf.timing import Spent, timed
from videopro import benchmarks
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.errors import ConfigError
from videopro.settings import setting

DATASETS = ("sft.jsonl", "grpo.jsonl")


@dataclass(frozen=True)
class SynthesisSettings:
    """How much, and how often."""

    questions: int = field(default=120, metadata=setting("questions of pocket's train split"))
    rounds: int = field(default=3, metadata=setting("rounds; in each, both ways run once"))
    output: Path = field(
        default=ROOT / "perf" / "synthesis_processes.json", metadata=setting("file for the results")
    )


COMMAND = CommandLine(
    "perf.synthesis_processes",
    SynthesisSettings,
    summary="Compare one synthesis command with two at the same time.",
)


def run_commands(cores: Sequence[int], questions: int) -> tuple[Spent, tuple[bytes, ...]]:
    """The time of a command on each of these cores, all on one folder, and its datasets. Raises
    ChildFailed."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "videopro", "synthesize", "--config", "pocket"]
        command += ["--limit", str(questions), "--output", str(Path(scratch) / "synthesis")]
        with timed() as spent:
            children = [
                subprocess.Popen(
                    command,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=ROOT,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    preexec_fn=partial(os.sched_setaffinity, 0, {core}),
                )
                for core in cores
            ]
            statuses = [child.wait(timeout=3600) for child in children]
        if any(statuses):
            raise ChildFailed(f"a command ended with status {max(statuses, key=abs)}")
        return spent, tuple((Path(scratch) / "synthesis" / name).read_bytes() for name in DATASETS)


def compare(given: SynthesisSettings) -> None:
    """Measure, print the table and write it. Raises ChildFailed, and ConfigError on one core."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise ConfigError("two commands need two cores, and this process may use one")
    benchmark = benchmarks.load("pocket", split="train")
    assert benchmark.fetch is not None
    benchmark.fetch(benchmark.select(limit=given.questions))
    load = os.getloadavg()[0]
    spent: dict[str, list[Spent]] = {"one": [], "two": []}
    datasets = set()
    for _ in range(given.rounds):
        for name, found in spent.items():
            took, made = run_commands(cores[: 1 if name == "one" else 2], given.questions)
            print(f"  {name}: {took}", flush=True)
            found.append(took)
            datasets.add(made)
    ratios = [two.wall_s / one.wall_s for one, two in zip(spent["one"], spent["two"], strict=True)]
    row: dict[str, float | bool] = {}
    for name, found in spent.items():
        row[f"{name}_s"] = round(statistics.median(took.wall_s for took in found), 1)
        row[f"{name}_cpu_s"] = round(statistics.median(took.cpu_s for took in found), 1)
    row["two_of_one"] = round(statistics.median(ratios), 2)
    row["same_datasets"] = len(datasets) == 1
    print("  ", "  ".join(f"{key} {value}" for key, value in row.items()))
    record = {
        "results": row,
        "questions": given.questions,
        "rounds": given.rounds,
        "load_before": round(load, 1),
        "versions": versions(),
    }
    write_record(given.output, record, indent=2)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was recorded") as status:
        compare(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
