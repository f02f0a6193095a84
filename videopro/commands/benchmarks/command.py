"""videopro benchmarks: list and check benchmarks, grade open answers, write a submission file, combine runs.

    videopro benchmarks list
    videopro benchmarks check videomme --root DIR
    videopro benchmarks check path/to/file.py --root DIR
    videopro benchmarks judge runs/mmbench --judge server:MODEL@URL
    videopro benchmarks submit runs/egoschema --output answers.json
    videopro benchmarks combine --long runs/long --clue runs/clue --miou runs/miou

Exit status: 0, 2 for errors you can fix (including an incomplete benchmark), 130 when interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group

from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks import BENCHMARKS, PRESETS
from videopro.cli import CommandLine, TextTable, exit_status, option
from videopro.commands.benchmarks.check import CheckConfig, check
from videopro.errors import BenchmarkError
from videopro.runs import (
    CombineConfig,
    JudgeConfig,
    SubmitConfig,
    combine,
    judge_run,
    metric_lines,
    submit,
)

_DEFAULTS = "The first split is the default, and so is the protocol of its name, or else the first."


def listing(files: Sequence[str] = ()) -> Group:
    """The benchmarks, including those of these files, then the names of sets of benchmarks. Raises
    BenchmarkError for a file that describes none; a broken package gets a row that says so."""
    rows = []
    for name in [*BENCHMARKS, *files]:
        try:
            rows.append(_row(name))
        except BenchmarkError as error:
            if name in files:
                raise
            rows.append((name, "", "", str(error)))
    heads = ("name", "--split", "--protocol", "--root")
    presets = [
        (preset, ", ".join(f"{name} {split} ({protocol})" for name, split, protocol in parts), str(frames))
        for preset, (parts, frames) in PRESETS.items()
    ]
    return Group(
        TextTable("--benchmark", heads, tuple(rows), (_DEFAULTS,), lefts=frozenset(heads)),
        TextTable(
            "sets of benchmarks",
            ("--benchmark", "runs", "frames per call"),
            tuple(presets),
            lefts=frozenset(("runs",)),
        ),
    )


def _row(name: str) -> tuple[str, str, str, str]:
    benchmark = BENCHMARKS[name]
    shown = ", ".join(protocol.name for protocol in benchmark.protocols)
    return name, ", ".join(benchmark.splits), shown, benchmark.holds


@dataclass(frozen=True)
class ListConfig:
    """The settings of `videopro benchmarks list`."""

    files: tuple[str, ...] = option((), "your own benchmark files (.py) to list too", positional=True)


LIST = CommandLine("benchmarks list", ListConfig)
CHECK = CommandLine("benchmarks check", CheckConfig)
JUDGE = CommandLine("benchmarks judge", JudgeConfig)
SUBMIT = CommandLine("benchmarks submit", SubmitConfig)
COMBINE = CommandLine("benchmarks combine", CombineConfig)
LINES = (LIST, CHECK, JUDGE, SUBMIT, COMBINE)


def main(argv: Sequence[str], *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line, starting with the subcommand. Returns the exit status."""
    with exit_status() as status:
        command, *arguments = argv
        if command == "list":
            Console().print(listing(LIST.parse(arguments).files))
        elif command == "check":
            checked = check(CHECK.parse(arguments))
            print("\n".join(checked.lines))
            return 0 if checked.is_complete else 2
        elif command == "judge":
            summary = judge_run(JUDGE.parse(arguments), load=load)
            print("\n".join(metric_lines(summary)))
        elif command == "combine":
            Console().print(combine(COMBINE.parse(arguments)))
        else:
            written = submit(SUBMIT.parse(arguments))
            lacking = f"{written.unanswered} of them without an answer"
            print(f"{written.path}: {written.questions} questions, {lacking}")
    return status.code
