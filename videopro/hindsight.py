"""What a run would have recorded under other settings, told from what it stored: before any refinement, under
another tau, or, with a second run, had it always taken several steps.

Pure functions over traces. Knows the rule by which an answer settles (`videopro.decision`); must not know
runs, files or scoring.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from videopro.decision import Final, decide
from videopro.trace import FALLBACK, Cost, Execution, Reply, Round, Trace


def before_refinement(trace: Trace) -> Trace:
    """What would have been recorded had nothing been refined: the first round's answer, and the cost without
    that of the others."""
    if trace.error is not None or trace.first is None:
        return trace
    return replace(
        trace,
        rounds=trace.rounds[:1],
        final=trace.first,
        settled=0,
        refined=0,
        official=trace.official if trace.settled == 0 else None,
        cost=_without(trace.cost, trace.rounds[1:]),
    )


def under(trace: Trace, tau: float, final: Final) -> Trace:
    """What a run with this threshold would have recorded, without the rounds that it would not have made.

    Right for any `tau` up to the confidence below which the run stored refinements (`refine_below`); beyond
    that the refinements are not there. `official` is None where another answer counts than in the run.
    """
    programs = [one for one in trace.rounds if one.prompt_kind != FALLBACK]
    executions = [one.execution for one in programs if one.execution is not None]
    if trace.error is not None or len(executions) < len(programs) or not executions:
        return trace
    decision = decide(executions, tau, final)
    settled = decision.settled
    rounds = trace.rounds[: decision.refined + 1]
    # A fallback was asked where no program answered at all; then it is so under every tau.
    if executions[settled].answer is None:
        rounds += trace.rounds[len(programs) :]
        settled = len(rounds) - 1
    answer = rounds[settled].execution
    assert answer is not None
    left = [one for one in trace.rounds if not any(one is kept for kept in rounds)]
    return replace(
        trace,
        rounds=rounds,
        final=_reply(answer),
        settled=settled,
        refined=decision.refined,
        official=trace.official
        if trace.settled is not None and trace.rounds[trace.settled] is rounds[settled]
        else None,
        cost=_without(trace.cost, left),
    )


def most_confident(trace: Trace) -> Trace:
    """What a run with `final="best"` would have recorded: of the answers before and after its refinements the
    most confident one counts."""
    # No confidence reaches this threshold: what the run refined stays refined.
    return under(as_settled(trace), math.inf, "best")


def always_steps(trace: Trace, program: Trace) -> Trace:
    """What a planner that always takes several steps would have recorded: its own first program where it
    chose several steps by itself; where it chose one look, what it did when it was asked for several
    (`program`, the question's trace under method program).

    A planner that was trained on the adaptive prompt writes worse programs under another one. Here only what
    is decided differently is answered differently, so that modes are compared and not prompts.
    """
    first = before_refinement(trace)
    return before_refinement(program) if first.rounds and first.rounds[0].mode == "native" else first


def as_settled(trace: Trace) -> Trace:
    """The trace without the rounds that were only stored for other thresholds, and without what they cost."""
    stored = [one for one in trace.rounds[trace.refined + 1 :] if one.prompt_kind != FALLBACK]
    if not stored:
        return trace
    kept = tuple(one for one in trace.rounds if not any(one is other for other in stored))
    return replace(trace, rounds=kept, cost=_without(trace.cost, stored))


def _reply(execution: Execution) -> Reply:
    return Reply(execution.answer, execution.confidence, dict(execution.letters), execution.raw)


def _without(whole: Cost, rounds: Iterable[Round]) -> Cost:
    part = sum(
        (one.planning + (one.execution.cost if one.execution is not None else Cost()) for one in rounds),
        Cost(),
    )
    return replace(
        whole,
        seconds=max(0.0, whole.seconds - part.seconds),
        frames=max(0.0, whole.frames - part.frames),
        calls=max(0.0, whole.calls - part.calls),
        tokens_in=max(0.0, whole.tokens_in - part.tokens_in),
        tokens_out=max(0.0, whole.tokens_out - part.tokens_out),
    )
