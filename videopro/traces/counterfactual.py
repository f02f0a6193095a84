"""What a run would have recorded under other settings, told from what it stored: before any refinement, under
another tau or rule, or, with a second run, with a fallback or had it always taken several steps.

Pure functions over traces. Knows the rule by which an answer settles (`videopro.traces.selection`); must not
know runs, files or scoring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from videopro.errors import RunError
from videopro.traces.record import FALLBACK, Cost, Round, Trace
from videopro.traces.selection import AnswerRule, FallbackRule, select_answer


class NoFallback(RunError):
    """A fallback is called for that neither the run nor another one gave."""


def rescore_before_refinement(
    trace: Trace, fallback: FallbackRule = "none", native: Trace | None = None
) -> Trace:
    """What would have been recorded had nothing been refined: the first round's answer, or where that is none
    the `fallback`'s, and the cost without that of the other rounds. `native`, NoFallback: see
    `rescore_at_tau`."""
    if trace.error is not None or trace.first is None:
        return trace
    return _with_rounds(trace, trace.rounds[:1], 0, 0, fallback, native)


def rescore_at_tau(trace: Trace, tau: float, rule: AnswerRule, native: Trace | None = None) -> Trace:
    """What a run with this threshold and this rule would have recorded, without the rounds that it would not
    have made.

    Right for any `tau` up to the confidence below which the run stored refinements (`refine_below`); beyond
    that the refinements are not there. `native`: the question's trace in a run of method native, for a
    fallback that the run itself did not ask for; raises NoFallback where that is missing. `official` is None
    where another answer counts than in the run."""
    return _rescored_by_selection(
        trace, [one for one in trace.rounds if one.prompt_kind != FALLBACK], tau, rule, native
    )


def rescore_by_rule(trace: Trace, rule: AnswerRule, native: Trace | None = None) -> Trace:
    """What the same run would have recorded by another rule: what it refined stays refined. `native`,
    NoFallback: see `rescore_at_tau`."""
    # No confidence reaches this threshold.
    return _rescored_by_selection(trace, trace.rounds[: trace.refined + 1], math.inf, rule, native)


def _rescored_by_selection(
    trace: Trace, programs: Sequence[Round], tau: float, rule: AnswerRule, native: Trace | None
) -> Trace:
    executions = [one.execution for one in programs if one.execution is not None]
    if trace.error is not None or len(executions) < len(programs) or not executions:
        return trace
    decision = select_answer(executions, tau, rule.final)
    rounds = tuple(programs[: decision.refined + 1])
    return _with_rounds(trace, rounds, decision.selected, decision.refined, rule.fallback, native)


def _with_rounds(
    trace: Trace,
    rounds: tuple[Round, ...],
    selected: int,
    refined: int,
    fallback: FallbackRule,
    native: Trace | None,
) -> Trace:
    """The trace with these of its rounds alone, and a direct answer behind them where `selected` has none."""
    cost = trace.cost
    execution = rounds[selected].execution
    if fallback == "native" and (execution is None or execution.answer.letter is None):
        direct = next((one for one in trace.rounds if one.prompt_kind == FALLBACK), None)
        if direct is None:
            direct, more = _direct(trace, native)
            cost += more
        rounds = (*rounds, direct)
        selected = len(rounds) - 1
        execution = direct.execution
    left = [one for one in trace.rounds if not any(one is kept for kept in rounds)]
    is_same = trace.selected is not None and trace.rounds[trace.selected] is rounds[selected]
    is_first = rounds[selected] is trace.rounds[0]
    return replace(
        trace,
        rounds=rounds,
        final=trace.first if is_first or execution is None else execution.answer,
        selected=selected,
        refined=refined,
        official=trace.official if is_same else None,
        cost=_without(cost, left),
    )


def _direct(trace: Trace, native: Trace | None) -> tuple[Round, Cost]:
    """The fallback's round, from a run of method native, and what it took there. Raises NoFallback, and
    RunError for a run on other questions."""
    if native is None:
        raise NoFallback(
            f"question {trace.question_id!r}: its run asked for no direct answer, so there is none to fall "
            "back on; name a run of method native on the same questions"
        )
    if (native.question, native.choices) != (trace.question, trace.choices):
        raise RunError(
            f"question {trace.question_id!r} has other words or options in the run of method native; name "
            "one on the same benchmark"
        )
    if native.final is None or not native.rounds:
        raise NoFallback(
            f"question {trace.question_id!r} has no answer in the run of method native; give that run's "
            "command again with --redo-errors"
        )
    return replace(native.rounds[-1], prompt_kind=FALLBACK, mode="native"), native.cost


NativeTraces = Mapping[str, Trace]
"""The traces of a run of method native by question: what a fallback answers."""
Rescoring = Callable[[Trace, Trace | None], Trace]
"""A trace, and the question's direct answer where one is at hand, to what another rule would have recorded.
Raises NoFallback where that is missing."""


def _by_answer_rule(rule: AnswerRule) -> Rescoring:
    return lambda trace, native: rescore_by_rule(trace, rule, native)


NATIVE = "+ native"
"""Ends the names of readings with a native fallback."""
RESCORINGS: Mapping[str, Rescoring] = {
    "first": lambda trace, _: rescore_before_refinement(trace),
    f"first {NATIVE}": lambda trace, native: rescore_before_refinement(trace, "native", native),
    "last": _by_answer_rule(AnswerRule("last")),
    f"last {NATIVE}": _by_answer_rule(AnswerRule("last", "native")),
    "last-answered": _by_answer_rule(AnswerRule("last-answered")),
    f"last-answered {NATIVE}": _by_answer_rule(AnswerRule("last-answered", "native")),
}
"""The answers that a run with refinement may be said to have given, by the names that tables use."""
RESCORINGS_NOTE = """first: before refinement; last: the last program's answer, failed or not (the paper's);
last-answered: the latest that there is; + native: where that is none, the direct answer of a run of
method native with the same model"""
"""What these names mean, for below a table."""


def rescore_all(
    traces: Iterable[Trace], reading: Rescoring, natives: NativeTraces
) -> tuple[Trace, ...] | None:
    """The traces as the reading has them; None where one of them calls for a fallback that nobody gave."""
    try:
        return tuple(reading(one, natives.get(one.question_id)) for one in traces)
    except NoFallback:
        return None


def rescore_always_program(trace: Trace, program: Trace) -> Trace:
    """What a planner that always takes several steps would have recorded: its own first program where it
    chose several steps by itself; where it chose one look, what it did when it was asked for several
    (`program`, the question's trace under method program).

    A planner that was trained on the adaptive prompt writes worse programs under another one. Here only what
    is decided differently is answered differently, so that modes are compared and not prompts.
    """
    first = rescore_before_refinement(trace)
    return rescore_before_refinement(program) if first.rounds and first.rounds[0].mode == "native" else first


def without_stored_rounds(trace: Trace) -> Trace:
    """The trace without the rounds that were only stored for other thresholds, and without what they cost."""
    if trace.selected is None:
        return trace
    counts = trace.rounds[trace.selected]
    stored = [one for one in trace.rounds[trace.refined + 1 :] if one is not counts]
    if not stored:
        return trace
    kept = tuple(one for one in trace.rounds if not any(one is other for other in stored))
    selected = next(place for place, one in enumerate(kept) if one is counts)
    return replace(trace, rounds=kept, selected=selected, cost=_without(trace.cost, stored))


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
