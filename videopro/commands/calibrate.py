"""videopro calibrate: from which confidence on the answers of a method have an error of at most a risk.

    videopro calibrate runs/val --output calibration.json
    videopro ask ... --abstain 0.1@calibration.json

The runs have answers that are known, and best also questions without a right option, whose answers are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from videopro.cli import CommandLine, TextTable, exit_status, option, setting
from videopro.errors import writing_file
from videopro.runs import Calibration
from videopro.storage import write_atomically
from videopro.traces.scoring import MISS, percent, widest

_RISKS = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class CalibrateConfig:
    """The settings of `videopro calibrate`."""

    runs: tuple[Path, ...] = field(
        metadata=setting("folders of finished runs of one method and model", positional=True)
    )
    output: Path = option(Path("calibration.json"), "file to write, for --abstain RISK@FILE")


COMMAND = CommandLine("calibrate", CalibrateConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        calibration = Calibration.of(config.runs)
        with writing_file(config.output, "set another --output"):
            config.output.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(config.output, calibration.to_json())
        Console().print(table_of(calibration))
        print(f"calibration: {config.output}")
    return status.code


def table_of(calibration: Calibration) -> TextTable:
    """The curve as a table, and which coverage each of three risks allows."""
    rows = tuple(
        (
            percent(point.coverage),
            f"{point.threshold:.3f}",
            str(point.answered),
            str(point.errors),
            percent(point.errors / point.answered),
            percent(point.bound),
        )
        for point in calibration.curve
    )
    allowed = []
    for risk in _RISKS:
        point = widest(calibration.curve, risk)
        allowed.append(
            f"--abstain {risk:g}: "
            + ("no confidence keeps to it" if point is None else f"answers {percent(point.coverage)} %")
        )
    questions = sum(len(run.questions) for run in calibration.runs)
    return TextTable(
        f"risk of {calibration.method['name']} on {questions} questions about {calibration.videos} videos",
        ("coverage %", "confidence", "answered", "wrong", "wrong %", "at most %"),
        rows,
        (
            f"{calibration.unanswerable} questions have no right option. at most: the bounds hold together "
            f"with a probability of {percent(1 - MISS)} %, for questions drawn as these.",
            "; ".join(allowed),
        ),
    )
