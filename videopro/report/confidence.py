"""Confidence of correct and wrong answers (Figure 2), with calibration error and AUROC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from videopro.report.figures import draw_confidence, draw_thresholds
from videopro.report.runs import NOTE, OWN_RULE, ReportRun, by_dataset, natives_for
from videopro.report.table import (
    BENCHMARK,
    Cell,
    FigureSpec,
    MissingRuns,
    Number,
    Section,
    Table,
    accuracy_cell,
    share,
)
from videopro.traces import AnswerRule, NativeTraces, NoFallback, rescore_at_tau
from videopro.traces.scoring import (
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    Accuracy,
    Bin,
    accuracy,
    answerable_auroc,
    area_under_risk,
    auroc,
    error_rate,
    expected_calibration_error,
    is_answerable,
    official_records_of,
    planner_tokens_out,
    records_of,
    reliability,
    risk_curve,
)

_AT_MOST = (
    "Of all questions whose answer is known. at most: bounds of the risk that hold together with probability "
    "0.95, by which `videopro calibrate` chooses."
)


def confidence(runs: Sequence[ReportRun]) -> Section:
    """Correct and wrong answers in ten confidence bins, for each run with all modules."""
    overall: list[dict[str, Cell]] = []
    binned: list[dict[str, Cell]] = []
    risks: list[dict[str, Cell]] = []
    drawn: list[tuple[str, tuple[Bin, ...], str]] = []
    chosen = [run for run in runs if not run.without and run.records]
    if not chosen:
        raise MissingRuns("confidence: no run has a scored question; finish one first")
    several = len(by_dataset(chosen)) > 1
    for data, group in by_dataset(chosen).items():
        for run in group:
            bins = reliability(run.records)
            error, area = expected_calibration_error(run.records), auroc(run.records)
            known = official_records_of(run.traces)
            selective = {"AURC": area_under_risk(known), "AUROC, answerable": answerable_auroc(run.traces)}
            # Some are not defined for every run: AUROC needs a right and a wrong answer.
            measures, selection = (
                {name: None if value is None else Number(value, 3) for name, value in values.items()}
                for values in ({"ECE": error, "AUROC": area}, selective)
            )
            who: dict[str, Cell] = {BENCHMARK: data.title, "run": run.name}
            overall.append(who | {"questions": len(run.records)} | measures | selection)
            for point in risk_curve(known):
                risk = error_rate([each for each in known if each.confidence >= point.threshold])
                risks.append(
                    who
                    | {
                        "coverage, %": share(point.coverage, 0),
                        "confidence from": Number(point.threshold, 3),
                        "answered": point.answered,
                        "wrong, %": accuracy_cell(risk),
                        "at most, %": share(point.bound),
                    }
                )
            for part in bins:
                right = round((part.accuracy.accuracy or 0.0) * part.accuracy.n)
                binned.append(
                    who
                    | {
                        "confidence": f"{part.low:.1f} to {part.high:.1f}",
                        "right": right,
                        "wrong": part.accuracy.n - right,
                        "accuracy, %": accuracy_cell(part.accuracy),
                        "mean confidence, %": share(part.mean_confidence),
                    }
                )
            title = f"{run.name}\n{data.title}" if several else run.name
            below = ", ".join(f"{name} {value}" for name, value in measures.items() if value is not None)
            drawn.append((title, bins, below))
    notes = (
        "ECE: expected calibration error over ten bins of equal width (Guo et al., 2017). AUROC: how often a "
        "right answer is more confident than a wrong one. The confidence is that of the answer that counts "
        "(Eq. 2); an answer that could not be read, or is not there, has 0.",
        "AURC: the mean risk over all coverages, a risk being the share of wrong answers among the most "
        "confident ones (Geifman and El-Yaniv, 2017). Answers to questions without a right option are wrong "
        "in it; AUROC, answerable: how often they are less confident than those to the other questions.",
        OWN_RULE,
    )
    return Section(
        "confidence", "Confidence and correctness", "Figure 2",
        (
            Table.of("Calibration", overall, *notes),
            Table.of("Right and wrong answers by confidence", binned, suffix="bins", folded=True),
            Table.of("Risk against coverage", risks, _AT_MOST, suffix="risk"),
        ),
        FigureSpec("Right and wrong answers by confidence; the line is the share of right ones with its 95 % "
                "interval, the dashed one what perfect calibration would be. Faint bars and hollow points: "
                "fewer than five answers.", partial(draw_confidence, drawn)),
        runs=tuple(chosen),
    )  # fmt: skip


TAUS = tuple(round(0.4 + 0.05 * step, 2) for step in range(11))
"""The range of the paper's Figure 4."""


Point: TypeAlias = tuple[float, Accuracy, float, float, float | None]
"""tau, accuracy, share of questions refined, seconds and planner tokens per question."""


def sweep(
    run: ReportRun,
    taus: Sequence[float] = TAUS,
    rule: AnswerRule | None = None,
    natives: NativeTraces | None = None,
) -> list[Point]:
    """The run rescored under each tau, by its own rule for the final answer or by `rule`. `natives`: direct
    answers for a fallback that the run did not use.

    Raises MissingRuns for a run without refinement and for a tau above what it stored, and NoFallback if a
    direct answer is missing.
    """
    method = run.identity["method"]
    if run.method != "videopro" or method["max_rounds"] < 1:
        raise MissingRuns(
            f"tau: {run.path} (method {run.method}) does not refine; pass a run of `videopro infer --method "
            "videopro --refine-below 0.9`"
        )
    stored = method["tau"] if method["refine_below"] is None else method["refine_below"]
    if max(taus) > stored:
        raise MissingRuns(
            f"tau: {run.path} stored refinements only for answers below {stored:g}, but the sweep goes to "
            f"{max(taus):g}; rerun with --refine-below {max(taus):g} and another --output, or "
            f"sweep up to {stored:g} with --taus"
        )
    points = []
    for tau in taus:
        traces = [
            rescore_at_tau(trace, tau, rule or run.rule, (natives or {}).get(trace.question_id))
            for trace in run.traces
        ]
        without_error = [trace for trace in traces if trace.error is None]
        if not without_error:
            raise MissingRuns(f"tau: {run.path} answered no question; retry its errors with --redo-errors")
        answerable = [trace for trace in traces if is_answerable(trace)]
        points.append(
            (
                tau,
                accuracy(records_of(traces)),
                sum(trace.refined > 0 for trace in without_error) / len(without_error),
                sum(trace.cost.seconds for trace in answerable) / len(answerable),
                planner_tokens_out(answerable),
            )
        )
    return points


RULES: Mapping[str, AnswerRule] = {
    "last program, %": AnswerRule("last"),
    "+ native fallback, %": AnswerRule("last", "native"),
    "last answer, %": AnswerRule("last-answered"),
    "last answer + native fallback, %": AnswerRule("last-answered", "native"),
}


def _by_rule(
    run: ReportRun, taus: Sequence[float], rule: AnswerRule, natives: NativeTraces
) -> list[Point] | None:
    try:
        return sweep(run, taus, rule, natives)
    except NoFallback:
        return None


def thresholds(runs: Sequence[ReportRun], taus: Sequence[float] = TAUS) -> Section:
    """The sweep over tau for every run with refinement and all modules."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise MissingRuns(
            "tau: no run refines; pass a run of `videopro infer --method videopro --refine-below 0.9`"
        )
    rows: list[dict[str, Cell]] = []
    drawn = []
    several = len(by_dataset(chosen)) > 1
    for data, group in by_dataset(chosen).items():
        for run in group:
            natives = natives_for(run, runs)
            by_rule = {head: _by_rule(run, taus, rule, natives) for head, rule in RULES.items()}
            for index, tau in enumerate(taus):
                points = {head: None if curve is None else curve[index] for head, curve in by_rule.items()}
                # None of these depends on the rule for the final answer.
                _, _, refined, seconds, tokens = next(point for point in points.values() if point)
                rows.append(
                    {
                        BENCHMARK: data.title,
                        "run": run.name,
                        "tau": f"{tau:.2f}",
                        **{
                            head: None if point is None else accuracy_cell(point[1])
                            for head, point in points.items()
                        },
                        "refined, %": share(refined),
                        PLANNER_TOKENS_OUT: None if tokens is None else Number(tokens, 0),
                        "runtime, s": Number(seconds, 2),
                    }
                )
            title = data.title if several and len(group) == 1 else f"{run.name}, {data.title}"
            # Without the direct answers of its fallback, a run is drawn by its last programs.
            curve = _by_rule(run, taus, run.rule, natives) or next(iter(by_rule.values())) or []
            label = f"{title if several else run.name} ({run.rule.title})"
            drawn.append((label, curve, float(run.identity["method"]["tau"])))
    notes = (
        "Each row is what the run would have recorded with that threshold, computed from the refinements "
        "that it stored; no question was answered again. Runtime excludes the fallback.",
        NOTE,
        PLANNER_TOKENS_NOTE,
    )
    return Section(
        "tau", "Confidence threshold", "Figure 4",
        (Table.of("Accuracy at varying confidence thresholds", rows, *notes),),
        FigureSpec("Accuracy over the threshold tau with 95 % intervals, and the share of questions that are "
                "refined, by the run's own rule of the final answer; the dotted line is its own tau.",
                partial(draw_thresholds, drawn)),
        runs=tuple(chosen),
    )  # fmt: skip
