"""videopro report: the paper's tables and figures from finished runs; nothing is run.

    videopro report runs/native runs/videopro --output runs/report
    videopro report SFT=runs/sft GRPO=runs/grpo --tables training pairs
    videopro report runs/videopro --export inspect --output logs

A run is a folder, NAME=FOLDER, or a folder that contains several runs.
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
    "main, efficiency, costs, modules, training, modes, confidence, tau, durations, metrics, open, pairs, "
    "runs; of other papers: videoagent, dvd, vca, lvagent, or one table of them such as vca-3"
)


@dataclass(frozen=True)
class ReportConfig:
    """The settings of `videopro report`."""

    runs: tuple[str, ...] = option((), "folders of runs; NAME=FOLDER names a run", positional=True)
    tables: tuple[str, ...] = option((), f"tables to make: {NAMES}; unset: all that the runs allow")
    taus: tuple[str, ...] = option((), "thresholds of table 'tau'; unset: 0.40 to 0.90 in steps of 0.05")
    published: bool = option(False, "show the paper's numbers below each of its tables")
    title: str = option("VideoPro: evaluation report", "heading of the report")
    export: Literal["", "lmms-eval", "inspect"] = option(
        "", "export one run for another harness instead: lmms-eval or inspect"
    )
    output: Path | None = option(
        None,
        "folder of the report (unset: runs/report); with --export the file for lmms-eval, or the folder "
        "of logs for inspect",
    )


COMMAND = CommandLine("report", ReportConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors the user can fix."""
    with exit_status(stopped="stopped; no file is incomplete") as status:
        config = COMMAND.parse(argv)
        if not config.runs:
            raise ConfigError(f"{COMMAND.program}: give one or more folders of finished runs")
        runs = read_runs(config.runs)
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
        raise ConfigError(f"taus is {' '.join(arguments)}; give numbers from 0 to 1") from error
    if any(not 0 <= tau <= 1 for tau in taus):
        raise ConfigError(f"taus is {' '.join(arguments)}; give numbers from 0 to 1")
    return taus


def _export(config: ReportConfig, runs: Sequence[ReportRun]) -> None:
    if len(runs) != 1:
        raise ConfigError(f"--export writes a single run, but {len(runs)} were given; give one folder")
    if config.output is None:
        raise ConfigError("--export needs --output: a folder of logs for inspect, a file for lmms-eval")
    if config.export == "inspect" and config.output.suffix:
        raise ConfigError(
            f"output is {str(config.output)!r}; for inspect it is a folder of logs, such as logs: `inspect "
            "view` finds a log by its name, which begins with a time"
        )
    export = EXPORTS[config.export](runs[0])
    print(f"{write_export(config.output, export)}: {export.questions} questions for {config.export}")
