"""Rescore a run under several rules for the final answer: the paper's (the last program counts) and the
latest answer, each with and without a native fallback.

The rule matters more than refinement does, so tables of accuracy show all of them.
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
    "The answer of the last program counts, even if that program failed (the paper's rule). Last answer: the "
    "latest program that answered counts. Native fallback: if no answer is left by that rule, the same "
    "model's direct answer counts, which no program contributed to."
)
OWN_RULE = "Each run by its own rule of the final answer (table 'runs')."
MISSING_NATIVE_NOTE = (
    "Rows with a native fallback need a run of method native with the same model and as many frames, without "
    "subtitles in its prompt. Where they are missing, add one."
)


def natives_for(run: ReportRun, runs: Sequence[ReportRun]) -> NativeTraces:
    """The direct answers that a fallback of this run would return, from a native run on the same questions;
    empty if there is none."""
    if not run.writes_programs:
        return {}
    for other in runs:
        if (
            other.method == "native"
            and (other.dataset, other.model, other.frames) == (run.dataset, run.model, run.frames)
            and run.questions <= other.questions
            and _is_fallback(other)
        ):
            return {trace.question_id: trace for trace in other.traces}
    return {}


def _is_fallback(native: ReportRun) -> bool:
    """Whether the native run asks in the same way as a fallback: with the backbone's own frames, and nothing
    else."""
    method = native.identity["method"]
    return not method.get("frames") and not method.get("fps") and method.get("subtitles", "none") == "none"


def variants(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run rescored by each rule that is possible, named after the rule; unchanged if it has no planner.
    `runs`: all runs, for their direct answers."""
    if not run.writes_programs:
        return [run]
    natives = natives_for(run, runs)
    rescored = []
    for name in _TITLES if run.method == "videopro" else _SINGLE:
        traces = rescore_all(run.traces, RESCORINGS[name], natives)
        if traces is not None:
            rescored.append(replace(run, name=", ".join((run.name, *_TITLES[name])), traces=traces))
    return rescored


def rescored_before(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run before any refinement, alone and with a native fallback if possible."""
    natives = natives_for(run, runs)
    rescored = []
    for name, title in (("first", ()), (f"first {NATIVE}", ("native fallback",))):
        traces = rescore_all(run.traces, RESCORINGS[name], natives)
        if traces is not None:
            named = ", ".join((f"{run.name}, before refinement", *title))
            rescored.append(replace(run, name=named, traces=traces))
    return rescored


def variants_of(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """All runs under each rule."""
    return [variant for run in runs for variant in variants(run, runs)]


def notes_for(runs: Sequence[ReportRun]) -> list[str]:
    """Notes below a table of variants."""
    planned = [run for run in runs if run.writes_programs]
    if not planned:
        return []
    lacking = any(
        rescore_all(run.traces, RESCORINGS[f"last {NATIVE}"], natives_for(run, runs)) is None
        for run in planned
    )
    return [NOTE, MISSING_NATIVE_NOTE] if lacking else [NOTE]
