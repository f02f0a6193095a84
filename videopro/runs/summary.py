"""The summary of a run, computed from its traces, as JSON and as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from videopro.benchmarks import JudgeGrade, Protocol, compute_metrics, unread_share
from videopro.cli import TextTable
from videopro.engine import traceback_file
from videopro.errors import failure_lines, writing_file
from videopro.runs.folder import RunFolder
from videopro.storage import write_atomically
from videopro.traces import Cost, Round, Trace, scoring
from videopro.traces.scoring import (
    FEW_VIDEOS_NOTE,
    agent_metrics,
    cost_metrics,
    exclusions_text,
    is_answerable,
    mean_frames_seen,
    mixed_versions,
    official_records_of,
    percent,
    percent_interval,
    program_metrics,
    records_of,
    shown_interval,
    stand_ins_text,
    versions_used,
)


def summarize(
    traces: Sequence[Trace],
    protocol: Protocol,
    about: Mapping[str, Any],
    grades: Mapping[str, JudgeGrade] = MappingProxyType({}),
) -> dict[str, Any]:
    """The metrics of a run, ready for JSON, starting with `about` (which run it is). `grades`: a judge's
    grades of open answers.

    `n` counts the scored questions (`records_of`), `scored_videos` their videos.
    `metrics`: the benchmark's own metrics, robust and official. Accuracies and rates are shares in 0..1; None
    if there is nothing to divide by. `cost` adds up the questions' own costs; `costs` are means per question
    that include shared preparation. `agent` is empty for methods without agent steps.
    """
    answerable = [trace for trace in traces if is_answerable(trace)]
    records = records_of(traces)
    official_records = official_records_of(traces)
    official = scoring.official_accuracy(official_records, unparsed=protocol.official_unparsed)
    official_groups = scoring.grouped(official_records)
    cost = sum((trace.cost for trace in traces), Cost())
    return {
        **about,
        **headline(traces, protocol),
        "official_accuracy": official.accuracy,
        "official_n": official.n,
        "metrics": {
            name: asdict(value)
            for name, value in compute_metrics(protocol, traces, records, official_records, grades).items()
        },
        "open": scoring.open_summary(traces),
        "ungraded": _ungraded(traces, grades),
        "coverage": scoring.coverage(
            {trace.video.key for trace in answerable}, {trace.video.key for trace in traces}
        ),
        "cut_replies": scoring.cut_replies(traces),
        "other_first_tokens": scoring.other_first_tokens(traces),
        "exceptions": _exceptions(traces),
        "stand_ins": scoring.stand_ins(traces),
        "failures": scoring.failures(traces),
        "program_failures": scoring.program_failures(traces),
        "notes": dict(Counter(note for trace in traces for note in trace.notes)),
        "versions": versions_used(traces),
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


def headline(traces: Sequence[Trace], protocol: Protocol) -> dict[str, Any]:
    """The first numbers of a summary, which `headline_part` of the traces is enough for."""
    records = records_of(traces)
    overall = scoring.accuracy(records)
    # A reply of times has no letter: it is unread if no time is in it.
    names_times = protocol.reply == "intervals" or any(
        metric.kind == "grounding" for metric in protocol.metrics
    )
    return {
        "n": overall.n,
        "accuracy": overall.accuracy,
        "accuracy_ci95": overall.ci95,
        "unparsed": unread_share(traces) if names_times else scoring.unparsed_rate(records),
        "seconds_per_question": sum(trace.cost.seconds for trace in traces) / len(traces) if traces else None,
        "questions": len(traces),
        "videos": len({trace.video.key for trace in traces}),
        "scored_videos": overall.clusters,
        "left_out": scoring.exclusions(traces),
        "errors": dict(Counter(trace.error.type for trace in traces if trace.error)),
        "modes": scoring.mode_shares(traces),
    }


def headline_part(trace: Trace) -> Trace:
    """What `headline` counts of a trace: a few kilobytes, however much happened in it."""
    return replace(
        trace,
        question="",
        groups={},
        first=None,
        final=trace.final and replace(trace.final, letters={}),
        rounds=tuple(Round(each.prompt_kind, "", mode=each.mode) for each in trace.rounds),
        notes=(),
        cost=Cost(trace.cost.seconds),
        prepared=(),
        ended_by=None,
        versions={},
    )


def _ungraded(traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> int:
    """The number of open answers without a grade, in a graded run."""
    if not grades:
        return 0
    answered = [trace for trace in traces if trace.reference is not None and trace.final is not None]
    return sum(
        trace.question_id not in grades or grades[trace.question_id].robust is None for trace in answered
    )


def _exceptions(traces: Sequence[Trace]) -> dict[str, dict[str, Any]]:
    """The unexpected exceptions, by class: how many questions and videos they affect, and where they were
    raised."""
    by_type: dict[str, list[tuple[Trace, str]]] = {}
    for trace in traces:
        for exception in trace.exceptions:
            by_type.setdefault(exception.type, []).append((trace, exception.place))
    return {
        kind: {
            "questions": len({trace.question_id for trace, _ in occurrences}),
            "videos": len({trace.video.key for trace, _ in occurrences}),
            "places": dict(Counter(location for _, location in occurrences)),
        }
        for kind, occurrences in by_type.items()
    }


def _row(part: scoring.Accuracy) -> dict[str, Any]:
    return {"n": part.n, "accuracy": part.accuracy, "accuracy_ci95": part.ci95, "videos": part.clusters}


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json atomically. Raises RunError."""
    with writing_file(path):
        write_atomically(path, json.dumps(summary, indent=2) + "\n")


def summary_table(summary: Mapping[str, Any], breakdowns: Sequence[str], folder: Path) -> TextTable:
    """The summary as a table: all questions, then the groups that `breakdowns` names. `folder`: the run
    folder, named in error lines. If all scored questions are open, the table shows their metrics, like
    `compare`."""
    is_open = _is_open(summary)
    overall = summary["open"] if is_open else {**summary, "videos": summary["scored_videos"]}
    rows = [("all", *_cells(overall, is_open))]
    rules = {0}
    for kind in breakdowns:
        parts = overall["groups"].get(kind, {})
        rows += [(f"{kind}: {name}", *_cells(part, is_open)) for name, part in parts.items()]
        rules.add(len(rows) - 1)
    scores = (
        ("exact match %", "token F1 %", _INTERVAL) if is_open else ("accuracy %", _INTERVAL, "official %")
    )
    heads = ("", "n", "videos", *scores)
    # A row without questions has no interval for another reason.
    few = any(row[heads.index(_INTERVAL)] == "-" and row[1] != "0" for row in rows)
    return TextTable(
        "{method} on {benchmark} {split}, {model}".format(**summary),
        heads,
        tuple(rows),
        ("n: scored questions.", *([FEW_VIDEOS_NOTE] if few else []), *_caption(summary, folder)),
        lefts=frozenset((_INTERVAL,)),
        rules=frozenset(rules),
    )


_INTERVAL = "95 % interval"


def _cells(part: Mapping[str, Any], is_open: bool) -> tuple[str, ...]:
    """The numbers of a row, of open questions or of the others."""
    videos = part["videos"]
    between = percent_interval(shown_interval(part["f1_ci95" if is_open else "accuracy_ci95"], videos))
    if is_open:
        scores = (percent(part["exact_match"]), percent(part["f1"]), between)
    else:
        scores = (percent(part["accuracy"]), between, percent(part["official_accuracy"]))
    return (str(part["n"]), str(videos), *scores)


def _is_open(summary: Mapping[str, Any]) -> bool:
    """Whether the scored questions are all open."""
    return bool(summary["open"]) and not summary["n"]


def _caption(summary: Mapping[str, Any], folder: Path) -> Iterator[str]:
    coverage = f"coverage {percent(summary['coverage'])} % of the videos"
    if _is_open(summary):
        yield from metric_lines(summary)
        yield f"unanswered {percent(summary['open']['unanswered'])} %, {coverage}"
    else:
        yield from _open_lines(summary)
        yield from metric_lines(summary)
        yield f"unparsed {_share(summary['unparsed'])}, {coverage}"
    yield from _cut_lines(summary)
    if reason := summary.get("settings", {}).get("not_reproducible"):
        yield f"not reproducible: {reason}"
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
    # The classes of a test teacher's faults (repairs/by_fault) are only in summary.json: they would have to
    # be explained here, see videopro/pocket/teacher/faults.py.
    for kind, counts in summary["repairs"]["by_state"].items():
        yield (
            f"{kind} at first: {counts['n']}, answered after refinement: {counts['repaired']}; correct: "
            f"{counts['right_before']} before, {counts['right_after']} after"
        )
    yield from _agent_lines(summary)
    if abstention := summary.get("abstention"):
        yield (
            f"--abstain {abstention['risk']:g}: {abstention['answered']} of {_questions(abstention['n'])} "
            f"answered with a confidence of {abstention['threshold']:.3f} or more, "
            f"{abstention['errors']} of them wrong"
        )
    if summary["left_out"]:
        left_out = exclusions_text(summary["left_out"])
        yield f"left out: {left_out} (all other questions count)"
    if summary["stand_ins"]:
        yield f"the nearest intact frame replaced {stand_ins_text(summary['stand_ins'])}"
    for kind, occurrences in summary["exceptions"].items():
        yield (
            f"{_questions(occurrences['questions'])} (videos: {occurrences['videos']}) ended in an "
            f"unexpected {kind}; first traceback: {traceback_file(RunFolder(folder).exceptions, kind)}"
        )
    traces = RunFolder(folder).traces
    if failures := summary["failures"]:
        them = "it" if len(failures) == 1 else "them"
        yield (
            f"{_questions(len(failures))} without an answer; re-run the same command with --redo-errors to "
            f"retry {them}:"
        )
        yield from failure_lines(failures, f"{traces} (`error`)")
    if failures := summary["program_failures"]:
        yield f"{_questions(len(failures))} without an answer, as the program failed:"
        yield from failure_lines(failures, str(traces))
    if broken := summary.get("broken_records"):
        yield "broken records, which were skipped:"
        yield from failure_lines(broken, "`videopro benchmarks check`")
    if summary.get("defects"):
        yield f"{summary['defects']} annotation errors (see `videopro benchmarks check`)"
    for note, count in summary["notes"].items():
        yield f"{count} questions: {note}"
    if mixed := mixed_versions(summary.get("versions", {})):
        yield f"answered with several versions (questions per version): {mixed}"


# From which share of unparsed replies on it is said what they begin with.
_MANY_UNPARSED = 0.1
_WHAT_WAS_CUT = {"answers": "written replies", "programs": "programs", "steps": "replies to an agent"}


def _cut_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Why replies have no answer, and the fix."""
    for kind, counts in summary.get("cut_replies", {}).items():
        limits = ", ".join(map(str, counts["limits"]))
        unsaid = f", {counts['unsaid']} of them before any answer text" if counts["unsaid"] else ""
        if kind != "answers":
            fix = "set --options max_new_tokens=N and another --output"
        elif summary.get("method") == "native":
            fix = "set --options reply_tokens=N and another --output, or turn off the model's thinking"
        else:
            fix = "turn off the model's thinking"
        yield f"{counts['replies']} {_WHAT_WAS_CUT[kind]} were cut off at {limits} tokens{unsaid}; {fix}"
    tokens = summary.get("other_first_tokens", {})
    if tokens and (summary["unparsed"] or 0) >= _MANY_UNPARSED:
        named = ", ".join(f"{token!r} ({count})" for token, count in tokens.items())
        yield (
            f"replies without a letter start with {named}; if the model writes text before its answer, set "
            "--options reply=text reply_tokens=N (method native), or turn off its thinking"
        )


def _open_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """The open questions, which are scored separately."""
    metrics = summary["open"]
    if metrics:
        exact, f1 = (_with_interval(metrics, name) for name in ("exact_match", "f1"))
        yield (
            f"{_questions(metrics['n'])} in words (videos: {metrics['videos']}): exact match {exact}, token "
            f"F1 {f1}, {percent(metrics['unanswered'])} % unanswered"
        )


def _with_interval(metrics: Mapping[str, Any], name: str) -> str:
    between = shown_interval(metrics[f"{name}_ci95"], metrics["videos"])
    share = f"{percent(metrics[name])} %"
    return share if between is None else f"{share} ({percent_interval(between)})"


def _questions(count: int) -> str:
    return f"{count} question{'' if count == 1 else 's'}"


def _agent_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """An agent's steps, and their preparation."""
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
    for kind, preparation in summary["costs"]["preparations"].items():
        note = f"; the cost of {preparation['unknown']} is unknown" if preparation["unknown"] else ""
        cost = preparation["cost"]
        if kind == "transcript":
            yield (
                f"{kind}: {preparation['n']} made for {preparation['questions']} questions, in "
                f"{cost['seconds']:.1f} s for {preparation['audio_seconds'] / 60:.1f} minutes of audio{note}"
            )
            continue
        yield (
            f"{kind}: {preparation['n']} made for {preparation['questions']} questions, with "
            f"{cost['seconds']:.1f} s, {cost['calls']:.0f} calls, {cost['frames']:.0f} frames and "
            f"{cost['tokens_in']:.0f} tokens in, {cost['tokens_out']:.0f} tokens out{note}"
        )


def metric_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """One line for each metric of the benchmark."""
    for name, value in summary["metrics"].items():
        yield f"{name}: {_metric_text(value)}"
    if summary.get("ungraded"):
        count = summary["ungraded"]
        which = (
            "1 answer has no grade, and counts" if count == 1 else f"{count} answers have no grade, and count"
        )
        yield f"{which} 0; re-run `videopro benchmarks judge` to grade again"


def _metric_text(value: Mapping[str, Any]) -> str:
    if value["robust"] is None:
        return "-"
    if value["valid"] is not None:
        return (
            f"{value['robust']:.2f} with failed answers as 0, {value['valid']:.2f} without them "
            f"(official {value['official']:.2f})"
        )
    return f"{_share(value['robust'])}, official {_share(value['official'])}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{percent(value)} %"
