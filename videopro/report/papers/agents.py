"""Results of the agents' papers outside their tables.

The kinds of tool use (DVD), how far a chosen segment is from the evidence (VCA), how many frames a type of
question needs (VideoAgent), and LVAgent's time and number of agents (this project has only the
supplement of its paper).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from videopro.report.papers.tables import (
    NOTE,
    Paper,
    PaperTable,
    build_table,
    frames_seen,
    own_runs,
    read_paper,
    read_published,
    right,
    setting,
)
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.table import BENCHMARK, Cell, MissingRuns, Number, Section, Table, share
from videopro.traces import Cost, Preparation, Trace
from videopro.traces.scoring import GROUP_SEPARATOR, behaviour_rows, is_answerable, segment_choices

PAPERS: Mapping[str, tuple[Paper, tuple[PaperTable, ...]]] = {
    name: read_paper(name) for name in ("videoagent", "dvd", "vca")
}
LVAGENT = read_published("lvagent")
_HOUR = 3600.0
_BEHAVIOURS = {
    "global_browse_only": "Global Browse only",
    "simple_action": "simple action",
    "iterative_search": "iterative search",
    "frame_inspect_trap": "Frame Inspect trap",
    "clip_search_trap": "Clip Search trap",
    None: "no tool",
}
_NEXTQA_TYPES = {"C": "causal", "T": "temporal", "D": "descriptive"}
_NEXTQA_FRAMES = {"descriptive": 5.9, "causal": 7.1, "temporal": 7.8}
"""VideoAgent's mean frames on NExT-QA by type of question (section 4.4)."""


def _own(name: str, runs: Sequence[ReportRun]) -> Iterator[tuple[str, ReportRun]]:
    """The runs of a paper's own system, each with its benchmark's title."""
    for data, group in by_dataset(runs).items():
        for run in own_runs(group, PAPERS[name][0]):
            yield data.title, run


def _section(name: str, title: str, source: str, table: Table, runs: Sequence[ReportRun]) -> Section:
    """The section of the runs of a paper's method."""
    included = tuple(run for run in runs if run.method == name.partition("-")[0])
    return Section(name, title, source, (table,), runs=included)


def behaviours(runs: Sequence[ReportRun]) -> Section:
    """The five classes of tool use, with their share, steps and accuracy (DVD, Fig. 3)."""
    rows: list[dict[str, Cell]] = [
        {
            BENCHMARK: data,
            "run": run.name,
            "behaviour": _BEHAVIOURS[part.behaviour],
            "questions": part.questions,
            "share, %": share(part.ratio),
            "steps": Number(part.steps),
            "accuracy, %": run.lacks or share(part.accuracy),
        }
        for data, run in _own("dvd", runs)
        for part in behaviour_rows(run.own_traces)
    ]
    if not rows:
        raise MissingRuns(
            "dvd-fig3: no run of method dvd with all tools answered a question; make one with `videopro "
            "infer --method dvd ...`"
        )
    notes = (
        "Classes by the order of tool calls; a trap is more than three calls of one tool in a row. Steps: "
        "requests for the next action.",
        "Published (LVBench): with o3, a simple action takes 5.2 steps and an iterative search 8.0; GPT-4o "
        "takes a simple action in 91.4 % of the questions, and 4.6 steps on average.",
    )
    title = "Tool-use behaviour"
    table = Table.of(title, rows, *notes)
    return _section("dvd-fig3", title, "Figure 3 of Deep Video Discovery", table, runs)


def segment_distances(runs: Sequence[ReportRun]) -> Section:
    """How far the chosen segment is from the annotated evidence: the agent's choice, and the greedy one (VCA,
    Fig. 5)."""
    rows: list[dict[str, Cell]] = []
    for title, run in _own("vca", runs):
        choices = [choice for trace in run.traces for choice in segment_choices(trace)]
        scored = [choice for choice in choices if choice.greedy_distance is not None]
        if not scored:
            continue
        questions = sum(bool(segment_choices(trace)) for trace in run.traces)
        mine = [choice.distance for choice in scored]
        greedy = [choice.greedy_distance for choice in scored if choice.greedy_distance is not None]
        for label, distances in (("the agent's choice", mine), ("the highest score", greedy)):
            rows.append(
                {
                    BENCHMARK: title,
                    "run": run.name,
                    "segment": label,
                    "questions": questions,
                    "choices": len(distances),
                    "mean distance": Number(fmean(map(abs, distances)), 2),
                    "mean signed distance": Number(fmean(distances), 2),
                    "in the evidence, %": share(fmean(gap == 0 for gap in distances)),
                }
            )
    if not rows:
        raise MissingRuns(
            "vca-fig5: no run of method vca chose a segment for a question with annotated evidence; make a "
            "run on a benchmark with evidence, such as lvbench"
        )
    notes = (
        "Distance in segments, among the segments open at that moment, to the nearest one that overlaps the "
        "annotated evidence. The paper does not say which choices its figure measures; here, all count.",
        "Published (GPT-4o on LVBench): distances with a mean of 1.28 for the highest score; for the agent's "
        "choices a sharper distribution, with an average distance gap of -0.60.",
    )
    title = "Distance of the chosen segment from the evidence"
    return _section("vca-fig5", title, "Figure 5 of VCA", Table.of(title, rows, *notes), runs)


def frame_efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy against frames by the number of rounds, and the frames that each type of question needs
    (VideoAgent, Fig. 3)."""
    section = build_table(PAPERS["videoagent"][1][-1], runs)
    rows: list[dict[str, Cell]] = []
    for title, run in _own("videoagent", runs):
        for name, frames in _frames_by_type(run).items():
            mean = _NEXTQA_FRAMES.get(name) if run.dataset.benchmark == "nextqa" else None
            rows.append(
                {
                    BENCHMARK: title,
                    "run": run.name,
                    "type": name,
                    "questions": len(frames),
                    "least": min(frames),
                    "mean frames": Number(fmean(frames)),
                    "most": max(frames),
                    "mean, published": None if mean is None else Number(mean),
                }
            )
    if not rows:
        return section
    published = ", ".join(f"{name} {mean}" for name, mean in _NEXTQA_FRAMES.items())
    note = f"Published means on NExT-QA: {published}."
    by_type = Table.of("Frames by question type", rows, note, suffix="types")
    return replace(section, tables=(*section.tables, by_type))


def _frames_by_type(run: ReportRun) -> dict[str, list[int]]:
    """The frames seen for each question, by the benchmark's first kind of group (of NExT-QA: causal,
    temporal and descriptive)."""
    by_type: dict[str, list[int]] = {}
    kinds = run.protocol.groups
    for trace in run.own_traces:
        if not is_answerable(trace) or not kinds or kinds[0] not in trace.groups:
            continue
        for name in trace.groups[kinds[0]].split(GROUP_SEPARATOR):
            if run.dataset.benchmark == "nextqa":
                name = _NEXTQA_TYPES.get(name[:1], name)
            by_type.setdefault(name, []).append(trace.frames_seen)
    return dict(sorted(by_type.items()))


def timings(runs: Sequence[ReportRun]) -> Section:
    """Hours and seconds per video of evaluation and preselection, next to a single model's."""
    method_runs = _method_runs(runs, "lvagent-times")
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        if not any(run.dataset == data for run in method_runs):
            continue
        for run in group:
            if run.method == "native":
                rows.append((data.title, f"{run.name} alone", *_took(_seconds(run), _videos(run))))
        for run in group:
            if run.method != "lvagent":
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
                rows.append((data.title, f"{run.name}: total{bound}", *total))
    heads = (BENCHMARK, "part", "hours", "videos", "seconds per video")
    notes = (
        "Evaluation: the time of the questions and of the clip index. Wall time depends on the machine: "
        "compare only rows from the same machine and number of workers.",
        "Fine-tuning of the retriever is not part of a run; see the training record of its weights.",
    )
    return Section(
        "lvagent-times", "LVAgent's time", "Section B.2 of LVAgent's supplement",
        (Table("LVAgent's time", heads, tuple(rows), notes), LVAGENT["times"]),
        runs=tuple(run for run in runs if run.method == "lvagent"),
    )  # fmt: skip


def numbers_of_agents(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, disagreement and time by the number of agents."""
    method_runs = _method_runs(runs, "lvagent-agents")
    rows: list[dict[str, Cell]] = []
    for data, group in by_dataset(method_runs).items():
        for run in sorted(group, key=_agents):
            answered = [trace for trace in run.own_traces if trace.error is None]
            firsts = [letters for trace in answered if (letters := first_letters(trace))]
            disagreed = [letters for letters in firsts if len(set(letters)) > 1]
            rounds = sum(1 + max((step.round for step in trace.steps), default=0) for trace in answered)
            rows.append(
                {
                    BENCHMARK: data.title,
                    "run": run.name,
                    "agents": _agents(run),
                    "questions": len(run.records),
                    "accuracy, %": right(run),
                    "frames seen": frames_seen(run),
                    "first answers differ, %": share(len(disagreed) / len(firsts) if firsts else None),
                    "rounds": Number(rounds / len(answered), 2) if answered else None,
                    "seconds per question": Number(_seconds(run) / len(run.traces), 2),
                }
            )
    notes = (
        "First answers differ: questions for which the agents give different letters in the first round; an "
        "unparsed answer counts as a separate letter. " + NOTE,
    )
    return Section(
        "lvagent-agents", "LVAgent by number of agents", "Section B.3 of LVAgent's supplement",
        (Table.of("LVAgent by number of agents", rows, *notes), LVAGENT["agents"]),
        runs=tuple(method_runs),
    )  # fmt: skip


def first_letters(trace: Trace) -> list[str]:
    """The agents' answers in the first round; "" for an unparsed answer."""
    return [
        str((step.parsed or {}).get("letter") or "")
        for step in trace.steps
        if step.kind == "answer" and step.round == 0
    ]


def _method_runs(runs: Sequence[ReportRun], name: str) -> list[ReportRun]:
    method_runs = [run for run in runs if run.method == "lvagent"]
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
