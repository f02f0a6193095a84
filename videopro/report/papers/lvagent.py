"""LVAgent: the timings and the numbers of agents of its supplement (sections B.2 and B.3).

Its main results are in the paper itself, of which this project has the supplement only: there is no table of
them here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from videopro.report.papers.building import NOTE, setting
from videopro.report.papers.files import read_published
from videopro.report.papers.spec import frames_seen, right
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, share
from videopro.traces import Cost, Preparation, Trace

METHOD = "lvagent"
TITLE = "LVAgent"
_HOUR = 3600.0
PUBLISHED = read_published("lvagent")


def timings(runs: Sequence[ReportRun]) -> Section:
    """Hours and seconds per video of evaluation and preselection, beside those of a single model."""
    method_runs = _method_runs(runs, "lvagent-times")
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        if not any(run.dataset == data for run in method_runs):
            continue
        for run in group:
            if run.method == "native":
                rows.append((data.title, f"{run.name} alone", *_took(_seconds(run), _videos(run))))
        for run in group:
            if run.method != METHOD:
                continue
            selected = _prepared(run, "selection")
            index = _prepared(run, "index")
            evaluation = _seconds(run) + sum(part.cost.seconds for part in index)
            rows.append((data.title, f"{run.name}: evaluation", *_took(evaluation, _videos(run))))
            if selected:
                before = sum(part.cost.seconds for part in selected)
                at_least = any(not part.is_known for part in (*selected, *index))
                bound = ", at least" if at_least else ""
                # How many videos the agents were compared on is in the team file, not in the traces.
                rows.append(
                    (data.title, f"{run.name}: preselection{bound}", Number(before / _HOUR, 3), None, None)
                )
                total = _took(before + evaluation, _videos(run))
                rows.append((data.title, f"{run.name}: in all{bound}", *total))
    heads = (BENCHMARK, "part", "hours", "videos", "seconds per video")
    notes = (
        "Evaluation: the questions' own time and that of the clip index. Wall time of whatever machine made "
        "the runs: compare rows of one machine with as many workers.",
        "Fine-tuning of the retriever is in no run; the training record of its weights has it.",
    )
    return Section(
        "lvagent-times", "LVAgent's time", f"Section B.2 of {TITLE}'s supplement",
        (Table("LVAgent's time", heads, tuple(rows), notes), PUBLISHED["times"]),
        notes=(*protocol_notes(runs), *question_notes(runs)),
        runs=tuple(run for run in runs if run.method == "lvagent"),
    )  # fmt: skip


def numbers_of_agents(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, disagreement and time by the number of agents."""
    method_runs = _method_runs(runs, "lvagent-agents")
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(method_runs).items():
        for run in sorted(group, key=_agents):
            answered = [trace for trace in run.own_traces if trace.error is None]
            firsts = [letters for trace in answered if (letters := first_letters(trace))]
            disagreed = [letters for letters in firsts if len(set(letters)) > 1]
            rounds = sum(1 + max((step.round for step in trace.steps), default=0) for trace in answered)
            rows.append(
                (data.title, run.name, _agents(run), len(run.records), right(run), frames_seen(run),
                 share(len(disagreed) / len(firsts) if firsts else None),
                 Number(rounds / len(answered), 2) if answered else None,
                 Number(_seconds(run) / len(run.traces), 2))
            )  # fmt: skip
    heads = (
        *(BENCHMARK, "run", "agents", "questions", "accuracy, %", "frames seen"),
        *("first answers differ, %", "rounds", "seconds per question"),
    )
    notes = (
        "First answers differ: questions in which the agents do not all give one letter in the first round, "
        "an unparsed answer counting as a letter of its own. " + NOTE,
    )
    return Section(
        "lvagent-agents", "LVAgent by its number of agents", f"Section B.3 of {TITLE}'s supplement",
        (Table("LVAgent by its number of agents", heads, tuple(rows), notes), PUBLISHED["agents"]),
        notes=(*protocol_notes(method_runs), *question_notes(method_runs)), runs=tuple(method_runs),
    )  # fmt: skip


def first_letters(trace: Trace) -> list[str]:
    """The agents' answers of the first round; "" for one that could not be parsed."""
    return [
        str((step.parsed or {}).get("letter") or "")
        for step in trace.steps
        if step.kind == "answer" and step.round == 0
    ]


def _method_runs(runs: Sequence[ReportRun], name: str) -> list[ReportRun]:
    method_runs = [run for run in runs if run.method == METHOD]
    if not method_runs:
        raise MissingRuns(
            f"{name}: no run of method lvagent; make one with `videopro infer --method lvagent "
            "--options agents=[A,B,C] ...`"
        )
    return method_runs


def _agents(run: ReportRun) -> int:
    return len(setting(run, "agents", ()))


def _seconds(run: ReportRun) -> float:
    return sum((trace.cost for trace in run.own_traces), Cost()).seconds


def _videos(run: ReportRun) -> int:
    return len({trace.video.key for trace in run.traces})


def _prepared(run: ReportRun, kind: str) -> list[Preparation]:
    """What was prepared for the run, each once."""
    by_key = {part.key: part for trace in run.traces for part in trace.prepared if part.kind == kind}
    return list(by_key.values())


def _took(seconds: float, videos: int) -> Iterator[Cell]:
    yield Number(seconds / _HOUR, 3)
    yield videos
    yield Number(seconds / videos, 2)
