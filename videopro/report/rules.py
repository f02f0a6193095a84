"""One run by several rules of the final answer: the paper's, by which the last program counts, and the latest
answer that there is; each with and without a native fallback.

Which of them a table uses decides more than refinement does, so tables of accuracy show all. Knows runs and
hindsight; nothing of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videopro.report.runs import ReportRun
from videopro.traces import NATIVE, RESCORINGS, NativeTraces, rescore_all

_TITLES = {
    "last": (),
    f"last {NATIVE}": ("native fallback",),
    "last-answered": ("last answer",),
    f"last-answered {NATIVE}": ("last answer", "native fallback"),
}
# Without refinement the first program is the last one.
_SINGLE = ("last", f"last {NATIVE}")

NOTE = (
    "The last program's answer counts, failed or not (the paper's rule); last answer: the latest that there "
    "is; native fallback: where that is none, the direct answer of the same model, which is no program's "
    "doing."
)
OWN_RULE = "Each run by its own rule of the final answer (table 'runs')."
LACKING = (
    "Rows with a native fallback are told from a run of method native with the same model and as many "
    "frames, without subtitles in its prompt; give one where they are missing."
)


def natives_for(run: ReportRun, runs: Sequence[ReportRun]) -> NativeTraces:
    """The direct answers that a fallback of this run would have given, from a run on the same questions;
    empty where there is none."""
    if not run.plans:
        return {}
    for other in runs:
        if (
            other.method == "native"
            and (other.dataset, other.model) == (run.dataset, run.model)
            and run.questions <= other.questions
            and _is_fallback(other)
        ):
            return {trace.question_id: trace for trace in other.traces}
    return {}


def _is_fallback(native: ReportRun) -> bool:
    """Whether it shows a question as a fallback does: the backbone's own frames, and nothing else."""
    method = native.identity["method"]
    return not method.get("frames") and not method.get("fps") and method.get("subtitles", "none") == "none"


def variants(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run by each rule that can be told, named by it; one that plans nothing as it is. `runs`: all that
    there are."""
    if not run.plans:
        return [run]
    natives = natives_for(run, runs)
    found = []
    for name in _TITLES if run.method == "videopro" else _SINGLE:
        traces = rescore_all(run.traces, RESCORINGS[name], natives)
        if traces is not None:
            found.append(replace(run, name=", ".join((run.name, *_TITLES[name])), traces=traces))
    return found


def rescored_before(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run before any refinement, alone and with a native fallback where that can be told."""
    natives = natives_for(run, runs)
    found = []
    for name, title in (("first", ()), (f"first {NATIVE}", ("native fallback",))):
        traces = rescore_all(run.traces, RESCORINGS[name], natives)
        if traces is not None:
            named = ", ".join((f"{run.name}, before refinement", *title))
            found.append(replace(run, name=named, traces=traces))
    return found


def variants_of(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """All runs by each rule."""
    return [one for run in runs for one in variants(run, runs)]


def notes_for(runs: Sequence[ReportRun]) -> list[str]:
    """What a table of variants says below."""
    planned = [run for run in runs if run.plans]
    if not planned:
        return []
    lacking = any(
        rescore_all(run.traces, RESCORINGS[f"last {NATIVE}"], natives_for(run, runs)) is None
        for run in planned
    )
    return [NOTE, LACKING] if lacking else [NOTE]
