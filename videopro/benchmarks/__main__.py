"""python -m videopro.benchmarks: check a benchmark's files, grade open answers, write a submission file.

    python -m videopro.benchmarks check videomme --root DIR
    python -m videopro.benchmarks judge runs/mmbench --judge server:MODEL@URL
    python -m videopro.benchmarks submit runs/egoschema --output answers.json

Exit status: 0, 2 for errors the user can fix (an incomplete benchmark too), 130 when interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks.check import CheckConfig, check
from videopro.cli import exit_status
from videopro.errors import ConfigError
from videopro.runs import JudgeConfig, SubmitConfig, judge_run, metric_lines, submit
from videopro.settings import did_you_mean, from_command_line

PROG = "python -m videopro.benchmarks"
COMMANDS = ("check", "judge", "submit")


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    with exit_status() as status:
        if not argv or argv[0] not in COMMANDS:
            hint = did_you_mean(argv[0], COMMANDS) if argv else f"known: {', '.join(COMMANDS)}"
            if argv[:1] in (["-h"], ["--help"]):
                print(__doc__)
                return 0
            raise ConfigError(f"{PROG}: give a command; {hint}")
        command, rest = argv[0], argv[1:]
        prog = f"{PROG} {command}"
        if command == "check":
            description = "Report which files of a benchmark are there and which are missing."
            checked = check(from_command_line(CheckConfig, rest, prog, description))
            print("\n".join(checked.lines()))
            return 0 if checked.is_complete else 2
        if command == "judge":
            description = "Grade the open answers of a run with a judge model."
            summary = judge_run(from_command_line(JudgeConfig, rest, prog, description), load=load)
            print("\n".join(metric_lines(summary)))
            return 0
        description = "Write the file that an evaluation server takes."
        written = submit(from_command_line(SubmitConfig, rest, prog, description))
        print(
            f"{written.path}: {written.questions} questions, {written.unanswered} of them without an answer"
        )
    return status.code


if __name__ == "__main__":
    sys.exit(main())
