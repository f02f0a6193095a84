"""videopro report: make the paper's tables and figures from finished runs.

    videopro report runs/native runs/videopro --output runs/report
    videopro report SFT=runs/sft GRPO=runs/grpo --tables training pairs
    videopro report runs/videopro --export inspect --output logs

Pass run folders, NAME=FOLDER, or a folder that contains several runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from videopro.cli import CommandLine, exit_status, option
from videopro.errors import ConfigError
from videopro.report import EXPORTS, ReportRun, make_report, read_runs, write_export

NAMES = (
    "main, efficiency, costs, modules, training, modes, confidence, tau, citations, durations, metrics, "
    "open, pairs, runs; from other papers: videoagent, dvd, vca, lvagent, or one of their tables, such as "
    "vca-3"
)


@dataclass(frozen=True)
class ReportConfig:
    """The settings of `videopro report`."""

    runs: tuple[str, ...] = option((), "run folders; NAME=FOLDER names a run", positional=True)
    lengths: tuple[str, ...] = option(
        (), "run folders for table 'durations' alone, such as of a benchmark's shorter videos; as RUNS"
    )
    tables: tuple[str, ...] = option((), f"tables to make: {NAMES}; unset: all that the runs allow")
    taus: tuple[str, ...] = option((), "thresholds of table 'tau'; unset: 0.40 to 0.90 in steps of 0.05")
    published: bool = option(False, "show the paper's numbers below each of its tables")
    title: str = option("VideoPro: evaluation report", "heading of the report")
    export: Literal["", "lmms-eval", "inspect"] = option(
        "", "export one run to another harness instead: lmms-eval or inspect"
    )
    output: Path | None = option(
        None,
        "report folder (unset: runs/report); with --export, the file for lmms-eval or the log folder for "
        "inspect",
    )


COMMAND = CommandLine("report", ReportConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status(stopped="stopped; all files are complete") as status:
        config = COMMAND.parse(argv)
        if not config.runs:
            raise ConfigError(f"{COMMAND.program}: pass one or more folders of finished runs")
        runs = read_runs(config.runs, config.lengths)
        if config.export:
            _export(config, runs)
        else:
            _report(config, runs)
    return status.code


def _report(config: ReportConfig, runs: Sequence[ReportRun]) -> None:
    folder = config.output if config.output is not None else Path("runs/report")
    report = make_report(
        runs,
        folder,
        title=config.title,
        tables=config.tables,
        taus=_taus(config.taus),
        published=config.published,
    )
    for section in report.sections:
        print(f"{section.name}: {section.title}{f' ({section.source})' if section.source else ''}")
        for note in section.notes:
            print(f"  {note}")
    for reason in report.lacking:
        print(f"left out: {reason}")
    print(f"{report.page}\n{folder / 'report.md'}\n{folder / 'tables'}: Markdown, LaTeX and CSV")


def _taus(arguments: Sequence[str]) -> tuple[float, ...]:
    try:
        taus = tuple(sorted(float(argument) for argument in arguments))
    except ValueError as error:
        raise ConfigError(f"taus is {' '.join(arguments)}; pass numbers from 0 to 1") from error
    if any(not 0 <= tau <= 1 for tau in taus):
        raise ConfigError(f"taus is {' '.join(arguments)}; pass numbers from 0 to 1")
    return taus


def _export(config: ReportConfig, runs: Sequence[ReportRun]) -> None:
    if len(runs) != 1:
        raise ConfigError(f"--export writes a single run, but {len(runs)} were given; pass one folder")
    if config.output is None:
        raise ConfigError("--export needs --output: a log folder for inspect, a file for lmms-eval")
    if config.export == "inspect" and config.output.suffix:
        raise ConfigError(
            f"output is {str(config.output)!r}; for inspect, it must be a folder, such as logs: `inspect "
            "view` finds a log by its name, which starts with a time"
        )
    export = EXPORTS[config.export](runs[0])
    print(f"{write_export(config.output, export)}: {export.questions} questions for {config.export}")
