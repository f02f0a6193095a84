"""videopro benchmarks: list and check benchmarks, grade open answers, write a submission file, combine runs.

    videopro benchmarks list
    videopro benchmarks check videomme --root DIR
    videopro benchmarks check path/to/file.py --root DIR
    videopro benchmarks judge runs/mmbench --judge server:MODEL@URL
    videopro benchmarks submit runs/egoschema --output answers.json
    videopro benchmarks combine --long runs/long --clue runs/clue --miou runs/miou

Exit status: 0, 2 for errors the user can fix (an incomplete benchmark too), 130 when interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from videopro.backbones import Backbone, load_backbone
from videopro.cli import CommandLine, did_you_mean, exit_status, setting
from videopro.commands.benchmarks.check import CheckConfig, check
from videopro.commands.benchmarks.listing import listing
from videopro.errors import ConfigError
from videopro.runs import (
    CombineConfig,
    JudgeConfig,
    SubmitConfig,
    combine,
    judge_run,
    metric_lines,
    submit,
)


@dataclass(frozen=True)
class ListConfig:
    """The settings of `videopro benchmarks list`."""

    files: tuple[str, ...] = field(
        default=(), metadata=setting("files of your own (.py) to list too", positional=True)
    )


LIST = CommandLine("benchmarks list", ListConfig)
CHECK = CommandLine("benchmarks check", CheckConfig)
JUDGE = CommandLine("benchmarks judge", JudgeConfig)
SUBMIT = CommandLine("benchmarks submit", SubmitConfig)
COMBINE = CommandLine("benchmarks combine", CombineConfig)
LINES = (LIST, CHECK, JUDGE, SUBMIT, COMBINE)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    with exit_status() as status:
        names = [line.name.split()[-1] for line in LINES]
        if argv[:1] in (["-h"], ["--help"]):
            print(__doc__)
            return 0
        if not argv or argv[0] not in names:
            hint = did_you_mean(argv[0], names) if argv else f"known: {', '.join(names)}"
            raise ConfigError(f"videopro benchmarks: give a command; {hint}")
        command, arguments = argv[0], argv[1:]
        if command == "list":
            Console().print(listing(LIST.parse(arguments).files))
        elif command == "check":
            checked = check(CHECK.parse(arguments))
            print("\n".join(checked.lines()))
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


if __name__ == "__main__":
    sys.exit(main())
