"""The summary of a run, computed from its traces, as JSON and as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.markup import escape
from rich.table import Table

from videopro import scoring
from videopro.benchmarks import JudgeGrade, Protocol, compute_metrics
from videopro.errors import RunError
from videopro.scoring import (
    agent_metrics,
    cost_metrics,
    is_answerable,
    mean_frames_seen,
    official_records_of,
    percent,
    program_metrics,
    records_of,
)
from videopro.storage import cannot_write, write_atomically
from videopro.traces import Cost, Trace


def summarize(
    traces: Sequence[Trace],
    protocol: Protocol,
    about: Mapping[str, Any],
    grades: Mapping[str, JudgeGrade] = MappingProxyType({}),
) -> dict[str, Any]:
    """The numbers of a run, JSON-able, starting with `about` (which run it is). `grades`: a judge's grades of
    open answers.

    `n` counts the scored questions (`records_of`). `metrics`: the benchmark's own metrics, robust and
    official. Accuracies and rates are shares in 0..1; None if there is nothing to divide by. `cost` adds up
    the questions' own costs; `costs` are means per question that also count what was prepared for many of
    them. `agent` is empty for methods without agents' steps.
    """
    answerable = [trace for trace in traces if is_answerable(trace)]
    records = records_of(traces)
    overall = scoring.accuracy(records)
    official_records = official_records_of(traces)
    official = scoring.official_accuracy(official_records, unparsed=protocol.official_unparsed)
    official_groups = scoring.grouped(official_records)
    cost = sum((trace.cost for trace in traces), Cost())
    return {
        **about,
        "n": overall.n,
        "accuracy": overall.accuracy,
        "accuracy_ci95": overall.ci95,
        "official_accuracy": official.accuracy,
        "official_n": official.n,
        "metrics": {
            name: asdict(value)
            for name, value in compute_metrics(protocol, traces, records, official_records, grades).items()
        },
        "unparsed": scoring.unparsed_rate(records),
        "coverage": scoring.coverage(
            {trace.video.key for trace in answerable}, {trace.video.key for trace in traces}
        ),
        "seconds_per_question": cost.seconds / len(traces) if traces else None,
        "questions": len(traces),
        "videos": len({trace.video.key for trace in traces}),
        "errors": dict(Counter(trace.error.type for trace in traces if trace.error)),
        "notes": dict(Counter(note for trace in traces for note in trace.notes)),
        "groups": {
            kind: {
                name: {
                    **_row(part),
                    "official_accuracy": scoring.official_accuracy(
                        official_groups[kind][name], unparsed=protocol.official_unparsed
                    ).accuracy,
                }
                for name, part in parts.items()
            }
            for kind, parts in scoring.group_accuracy(records).items()
        },
        "calibration": {
            "bins": [
                {"low": bin.low, "high": bin.high, "confidence": bin.mean_confidence, **_row(bin.accuracy)}
                for bin in scoring.reliability(records)
            ],
            "expected_error": scoring.expected_calibration_error(records),
            "auroc": scoring.auroc(records),
        },
        **program_metrics(traces),
        "agent": agent_metrics(traces),
        "frames_seen": mean_frames_seen(answerable),
        "costs": cost_metrics(traces),
        "cost": {
            "seconds": cost.seconds,
            "stages": dict(cost.stages),
            "frames": cost.frames,
            "calls": cost.calls,
            "tokens_in": cost.tokens_in,
            "tokens_out": cost.tokens_out,
        },
    }


def _row(part: scoring.Accuracy) -> dict[str, Any]:
    return {"n": part.n, "accuracy": part.accuracy, "accuracy_ci95": part.ci95, "videos": part.clusters}


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json atomically. Raises RunError."""
    try:
        write_atomically(path, json.dumps(summary, indent=2) + "\n")
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


def summary_table(summary: Mapping[str, Any], breakdowns: Sequence[str]) -> Table:
    """The summary as a table: all questions, then the groups that `breakdowns` names."""
    grid = Table(
        title=escape("{method} on {benchmark} {split}, {model}".format(**summary)),
        caption="\n".join(_caption(summary)),
        caption_justify="left",
    )
    grid.add_column("")
    grid.add_column("n", justify="right")
    grid.add_column("accuracy %", justify="right")
    grid.add_column("95 % interval")
    grid.add_column("official %", justify="right")
    grid.add_row("all", *_cells(summary), end_section=True)
    for kind in breakdowns:
        parts = summary["groups"].get(kind, {})
        for i, (name, part) in enumerate(parts.items(), start=1):
            grid.add_row(escape(f"{kind}: {name}"), *_cells(part), end_section=i == len(parts))
    return grid


def _cells(part: Mapping[str, Any]) -> tuple[str, str, str, str]:
    interval = part["accuracy_ci95"]
    between = f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}" if interval else "-"
    return str(part["n"]), percent(part["accuracy"]), between, percent(part["official_accuracy"])


def _caption(summary: Mapping[str, Any]) -> Iterator[str]:
    yield from metric_lines(summary)
    coverage = percent(summary["coverage"])
    yield f"unparsed {percent(summary['unparsed'])} %, coverage {coverage} % of the videos"
    seconds = summary["seconds_per_question"]
    if seconds is not None:
        yield f"{seconds:.2f} s per question; subtitles: {summary['subtitles']}"
    modes = summary["modes"]
    if modes["program"] or modes["refined"] or modes["none"]:
        yield (
            f"native {percent(modes['native'])} %, program {percent(modes['program'])} %, refined "
            f"{percent(modes['refined'])} %, fallback {percent(modes['fallback'])} %; "
            f"{summary['output']['characters']:.0f} characters written per question"
        )
    for kind, counts in summary["repairs"]["by_state"].items():
        yield (
            f"{kind} at first: {counts['n']}, answered after refinement: {counts['repaired']}; right "
            f"{counts['right_before']} before, {counts['right_after']} after"
        )
    for kind, counts in summary["repairs"]["by_fault"].items():
        yield (
            f"teacher's fault {kind!r}: {counts['n']}, failed {counts['failed']} (repaired "
            f"{counts['repaired_of_failed']}), right {counts['right_before']} before, "
            f"{counts['right_after']} after"
        )
    yield from _agent_lines(summary)
    for kind, count in summary["errors"].items():
        yield f"{count} questions without an answer: {kind}"
    if summary.get("broken_records"):
        yield f"{summary['broken_records']} broken records were left out"
    if summary.get("defects"):
        yield f"{summary['defects']} annotation errors (see python -m videopro.benchmarks check)"
    for note, count in summary["notes"].items():
        yield f"{count} questions: {escape(note)}"


def _agent_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """What an agent did, and what was prepared for it."""
    agent = summary["agent"]
    if agent:
        replies = agent["replies"]
        yield (
            f"{agent['steps']:.1f} steps per question ({agent['reused']:.1f} reused), "
            f"{summary['frames_seen']:.1f} frames seen"
        )
        yield (
            f"{replies['unparsed']} of {replies['structured']} structured replies could not be parsed (in "
            f"{replies['questions_with_unparsed']} questions), {replies['repaired']} were repaired; "
            f"{agent['forced']} answers forced, {agent['unanswered']} questions without an answer"
        )
    for kind, found in summary["costs"]["preparations"].items():
        known = f"; the cost of {found['unknown']} is not known" if found["unknown"] else ""
        cost = found["cost"]
        yield (
            f"{kind}: {found['n']} made for {found['questions']} questions, with {cost['seconds']:.1f} s, "
            f"{cost['calls']:.0f} calls, {cost['frames']:.0f} frames and "
            f"{cost['tokens_in'] + cost['tokens_out']:.0f} tokens{known}"
        )


def metric_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """One line for each metric of the benchmark."""
    for name, value in summary["metrics"].items():
        yield f"{name}: {_metric_text(value)}"


def _metric_text(value: Mapping[str, Any]) -> str:
    if value["robust"] is None:
        return "-"
    if value["valid"] is not None:
        return (
            f"{value['robust']:.2f} with failed answers as 0, {value['valid']:.2f} without them "
            f"(official {value['official']:.2f})"
        )
    return f"{percent(value['robust'])} %, official {percent(value['official'])} %"
