"""What a question is expected to give and to cost, before it is asked: measured on the questions that the
folder has recorded, or assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from videopro.data_synthesis.questions import Side
from videopro.data_synthesis.rules import NATIVE, PLAN, grpo_tasks, select_trajectories
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.traces import Trace

ENOUGH = 30
"""Recorded questions from which their rates are taken."""

SIDES: tuple[Side, ...] = ("sft", "grpo")


@dataclass(frozen=True)
class Assumptions:
    """What is assumed of a question that nothing was recorded of. None of it was measured on real data: a
    hundred questions, asked first, replace it by what is true of the model, the teacher and the source."""

    native_sure: float = 0.35
    """Questions whose native answer is right and confident."""
    solved: float = 0.5
    """Other questions that one of the first programs is right about."""
    sure: float = 0.35
    """First programs that are right and confident."""
    failed: float = 0.1
    """First programs that fail."""
    fixed: float = 0.45
    """Refinements of a failed program that are right."""
    corrected: float = 0.3
    """Refinements of an unsure or wrong answer that are right."""
    tokens_out: float = 2000.0
    """Of a reply, with what the teacher thinks before it."""
    reply_seconds: float = 30.0
    native_seconds: float = 2.3
    """Of a native answer: the larger runtime of the paper's Table 2, whose machine is not named."""
    program_seconds: float = 2.95
    """Of running a program that a teacher wrote: as `videopro reproduce` reckons (`run` in its
    rates.yaml)."""
    video_seconds: float = 60.0
    """Decoding and indexing a video."""


ASSUMED = Assumptions()


@dataclass(frozen=True)
class Rates:
    """Means per question of one side."""

    questions: int = 0
    """That they are measured on; 0: they are assumed."""
    requests: float = 0.0
    refinements: float = 0.0
    """Those of the requests that refine."""
    sft: Mapping[str, float] = field(default_factory=dict)
    """Rows by kind."""
    grpo: Mapping[str, float] = field(default_factory=dict)
    """Rows by kind."""
    seconds: float = 0.0
    """Of the answering model and the modules."""


def assumed_rates(
    side: Side, programs: int, refinements: int, *, is_divided: bool, always_program: bool
) -> Rates:
    """The rates of a side under ASSUMED."""
    a = ASSUMED
    unsure = 1 - a.native_sure
    requests_of = {
        "bug_fix": programs * a.failed,
        "native_refinement": unsure,
        "program_refinement": programs * (1 - a.failed - a.sure),
    }
    refined = {kind: number * refinements for kind, number in requests_of.items()}
    sft: dict[str, float] = {}
    if side == "sft":
        sft = {
            "native": a.native_sure,
            "program": unsure * a.solved if programs else 0.0,
            "plan_program": a.native_sure if programs and always_program else 0.0,
            "bug_fix": refined["bug_fix"] * a.fixed,
            "native_refinement": refined["native_refinement"] * a.corrected,
            "program_refinement": refined["program_refinement"] * a.corrected,
        }
    grpo = {"plan": 1.0, **requests_of} if side == "grpo" or not is_divided else {}
    return Rates(
        requests=programs + sum(refined.values()),
        refinements=sum(refined.values()),
        sft=_some(sft),
        grpo=_some(grpo),
        seconds=a.native_seconds + (programs + sum(refined.values())) * a.program_seconds,
    )


def measured_rates(traces: Iterable[Trace], side: Side, config: SynthesisConfig) -> Rates | None:
    """The rates of the recorded questions of a side; None below ENOUGH of them."""
    split = config.video_split()
    of_side = [trace for trace in traces if trace.error is None and split.serves(trace.video.key, side)]
    if len(of_side) < ENOUGH:
        return None
    sft: Counter[str] = Counter()
    grpo: Counter[str] = Counter()
    requests = refinements = 0
    for trace in of_side:
        rounds = trace.rounds[NATIVE + 1 :]
        requests += len(rounds)
        refinements += sum(round.prompt_kind != PLAN for round in rounds)
        if split.serves(trace.video.key, "sft"):
            rows, _ = select_trajectories(trace, config.tau, always_program=config.always_program)
            sft.update(row.kind for row in rows)
        if split.serves(trace.video.key, "grpo"):
            grpo.update(task.kind for task in grpo_tasks(trace, config.tau))
    count = len(of_side)
    return Rates(
        questions=count,
        requests=requests / count,
        refinements=refinements / count,
        sft={kind: number / count for kind, number in sorted(sft.items())},
        grpo={kind: number / count for kind, number in sorted(grpo.items())},
        seconds=sum(trace.cost.seconds for trace in of_side) / count,
    )


def rates_of(traces: Sequence[Trace], side: Side, config: SynthesisConfig) -> Rates:
    """The measured rates of a side, or the assumed ones."""
    measured = measured_rates(traces, side, config)
    if measured is not None:
        return measured
    programs, refinements = config.effort_of(side)
    return assumed_rates(
        side,
        programs,
        refinements,
        is_divided=config.sft_share is not None,
        always_program=config.always_program,
    )


def _some(rates: Mapping[str, float]) -> dict[str, float]:
    return {kind: rate for kind, rate in rates.items() if rate}
