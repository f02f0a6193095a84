"""Confidence of correct and wrong answers (Figure 2), with calibration error and AUROC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videopro.report.rules import OWN_RULE
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, share
from videopro.traces.scoring import Bin, auroc, expected_calibration_error, reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def confidence(runs: Sequence[ReportRun]) -> Section:
    """Correct and wrong answers in ten confidence bins, for each run with all modules."""
    overall: list[tuple[Cell, ...]] = []
    binned: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, tuple[Bin, ...], str]] = []
    chosen = [run for run in runs if not run.without and run.records]
    if not chosen:
        raise MissingRuns("confidence: no run has a question with a known answer; finish one first")
    several = len(by_dataset(chosen)) > 1
    for data, group in by_dataset(chosen).items():
        for run in group:
            bins = reliability(run.records)
            error, area = expected_calibration_error(run.records), auroc(run.records)
            overall.append(
                (
                    data.title,
                    run.name,
                    len(run.records),
                    None if error is None else Number(error, 3),
                    None if area is None else Number(area, 3),
                )
            )
            for part in bins:
                right = round((part.accuracy.accuracy or 0.0) * part.accuracy.n)
                binned.append(
                    (
                        data.title,
                        run.name,
                        f"{part.low:.1f} to {part.high:.1f}",
                        right,
                        part.accuracy.n - right,
                        accuracy_cell(part.accuracy),
                        share(part.mean_confidence),
                    )
                )
            measures = [] if error is None else [f"ECE {error:.3f}"]
            measures += [] if area is None else [f"AUROC {area:.3f}"]
            title = f"{run.name}\n{data.title}" if several else run.name
            drawn.append((title, bins, ", ".join(measures)))
    notes = (
        "ECE: expected calibration error over ten bins of equal width (Guo et al., 2017). AUROC: how often a "
        "right answer is more confident than a wrong one. The confidence is that of the answer that counts "
        "(Eq. 2); an answer that could not be read, or is not there, has 0.",
        OWN_RULE,
    )

    def draw() -> Figure:
        from videopro.report.figures import draw_confidence

        return draw_confidence(drawn)

    heads = (BENCHMARK, "run", "confidence", "right", "wrong", "accuracy, %", "mean confidence, %")
    return Section(
        "confidence", "Confidence and correctness", "Figure 2",
        (
            Table("Calibration", (BENCHMARK, "run", "questions", "ECE", "AUROC"), tuple(overall), notes),
            Table("Right and wrong answers by confidence", heads, tuple(binned), suffix="bins", folded=True),
        ),
        FigureSpec("Right and wrong answers by confidence; the line is the share of right ones with its 95 % "
                "interval, the dashed one what perfect calibration would be. Faint bars and hollow points: "
                "fewer than five answers.", draw),
        runs=tuple(chosen),
    )  # fmt: skip
