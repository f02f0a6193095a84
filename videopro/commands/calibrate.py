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
from videopro.runs import Calibration
from videopro.storage import write_file
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
        write_file(config.output, calibration.to_json(), "set another --output")
        Console().print(table_of(calibration))
        print(f"calibration: {config.output}")
    return status.code


def table_of(calibration: Calibration) -> TextTable:
    """The curve as a table, and which coverage each of three risks allows."""
    shares = ((point.coverage, point.errors / point.answered, point.bound) for point in calibration.curve)
    rows = tuple(
        (coverage, f"{point.threshold:.3f}", str(point.answered), str(point.errors), wrong, most)
        for point, (coverage, wrong, most) in zip(
            calibration.curve, (map(percent, each) for each in shares), strict=True
        )
    )
    points = {risk: widest(calibration.curve, risk) for risk in _RISKS}
    allowed = "; ".join(
        f"--abstain {risk:g}: "
        + (f"answers {percent(point.coverage)} %" if point else "no confidence suffices")
        for risk, point in points.items()
    )
    return TextTable(
        f"risk of {calibration.method['name']}: {len(calibration.questions)} questions, "
        f"{calibration.unanswerable} of them without a right option, {calibration.videos} videos",
        ("coverage %", "confidence", "answered", "wrong", "wrong %", "at most %"),
        rows,
        (f"at most: all bounds hold with probability {1 - MISS:g}, for questions such as these.", allowed),
    )
