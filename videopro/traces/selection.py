"""Decides whether an answer is confident enough, and which of several answers counts; and rescores stored
traces as if the run had had other settings: no refinement, another tau or answer rule, or, with a second run,
a native fallback or a program for every question. Pure functions over executions and traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from videopro.errors import RunError
from videopro.traces.record import AGENT, FALLBACK, Execution, Result, Round, Trace
from videopro.traces.steps import Cost

FinalRule = Literal["last", "last-answered", "best"]
"""Which of its programs' answers counts for a question; see `select_answer`."""
FallbackRule = Literal["none", "native"]
"""The fallback for a question that no program answered: no answer, or the model directly."""


@dataclass(frozen=True)
class AnswerRule:
    """Which answer of a question counts. The default is the rule of the paper and its release."""

    final: FinalRule = "last"
    fallback: FallbackRule = "none"

    @property
    def title(self) -> str:
        """Its name in tables."""
        named = {"last": "last program", "last-answered": "last answer", "best": "most confident answer"}[
            self.final
        ]
        return named if self.fallback == "none" else f"{named}, native fallback"


def recorded_rule(settings: Mapping[str, object]) -> AnswerRule:
    """The rule of a run, from its recorded method settings."""
    final = settings.get("final_answer", "last")
    return AnswerRule(cast(FinalRule, final), cast(FallbackRule, settings.get("fallback", "none")))


@dataclass(frozen=True)
class Selection:
    """Which execution of a question counts under a threshold, and how many refinements it took."""

    selected: int
    """Index of the execution whose answer counts."""
    refined: int
    """Number of refinements under the threshold, among those that exist."""


def is_confident(execution: Execution, tau: float) -> bool:
    """Whether an execution needs no refinement: it has an answer, and c >= tau (inclusive).

    In words, c is the geometric mean of the probabilities of the answer's tokens (Eq. 2), so a long answer is
    as confident as its tokens are on average.
    """
    return execution.status == "ok" and execution.answer.confidence >= tau


def select_answer(
    executions: Sequence[Execution], tau: float, final: FinalRule, most: int | None = None
) -> Selection:
    """Select the execution whose answer counts under `tau`.

    Refinements count in turn until one is confident, at most `most` of them. "last": the last program's
    answer, even if it failed and has none (the rule of the paper and its release). "last-answered": the last
    answer that exists, so that a failed refinement loses nothing. "best": the most confident answer, the
    earliest of equals. If no program gave an answer, the last one counts under every rule. Raises ValueError
    without executions.
    """
    if not executions:
        raise ValueError("Nothing to select from: there are no executions.")
    end = 0
    last = len(executions) - 1 if most is None else min(most, len(executions) - 1)
    while end < last and not is_confident(executions[end], tau):
        end += 1
    answered = [i for i in range(end + 1) if executions[i].status == "ok"]
    if final == "last" or not answered:
        selected = end
    elif final == "last-answered":
        selected = answered[-1]
    else:
        selected = max(answered, key=lambda i: (executions[i].answer.confidence, -i))
    return Selection(selected, end)


def shown_confidence(result: Result, *, is_open: bool) -> float | None:
    """The confidence of the answer that counts, for readers; None if no answering call gave it one, as when
    an agent's reply names its answer."""
    if result.final is None:
        return None
    is_agent = result.selected is not None and result.rounds[result.selected].prompt_kind == AGENT
    is_answered = result.final.letter is not None or is_open
    return None if is_agent and is_answered and not result.final.confidence else result.final.confidence


WITHHELD = "no confident answer"
"""How the note of a question begins whose answer is kept and not shown."""


def withhold(result: Result, threshold: float, why: str) -> Result:
    """The result with a note if the confidence of its letter is below `threshold`, so that readers show no
    answer; the letter stays in the record. `why`: what follows from the threshold."""
    final = result.final
    if final is None or final.letter is None or final.confidence >= threshold:
        return result
    note = f"{WITHHELD}: {final.letter} with {final.confidence:.3f}, below {threshold:.3f} ({why})"
    return replace(result, notes=(*result.notes, note))


def is_withheld(result: Result) -> bool:
    """Whether the answer was not confident enough to be shown."""
    return any(note.startswith(WITHHELD) for note in result.notes)


class NoFallback(RunError):
    """A rescoring needs a fallback answer that neither the run nor a run of method native has."""


def rescore_before_refinement(
    trace: Trace, fallback: FallbackRule = "none", native: Trace | None = None
) -> Trace:
    """The trace as if nothing had been refined: the first round's answer, or the `fallback`'s if there is
    none, and the cost without that of the later rounds. `native`, NoFallback: see `rescore_at_tau`."""
    if trace.error is not None or trace.first is None:
        return trace
    return _with_rounds(trace, trace.rounds[:1], 0, 0, fallback, native)


def rescore_at_tau(trace: Trace, tau: float, rule: AnswerRule, native: Trace | None = None) -> Trace:
    """The trace as a run with this threshold and rule would have recorded it, without the rounds that it
    would not have made.

    Exact for any `tau` up to the confidence below which the run stored refinements (`refine_below`); above
    that the refinements were not stored. `native`: the question's trace in a run of method native, for a
    fallback that the run itself did not request; raises NoFallback if it is needed and missing. `official` is
    None if a different answer counts than in the run."""
    return _rescored_by_selection(
        trace, [round for round in trace.rounds if round.prompt_kind != FALLBACK], tau, rule, native
    )


def rescore_by_rule(trace: Trace, rule: AnswerRule, native: Trace | None = None) -> Trace:
    """The trace as the same run would have recorded it under another rule; its refinements stay. `native`,
    NoFallback: see `rescore_at_tau`."""
    # No confidence reaches this threshold.
    return _rescored_by_selection(trace, trace.rounds[: trace.refined + 1], math.inf, rule, native)


def _rescored_by_selection(
    trace: Trace, programs: Sequence[Round], tau: float, rule: AnswerRule, native: Trace | None
) -> Trace:
    executions = [round.execution for round in programs if round.execution is not None]
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
    """The trace with only these rounds, and a direct answer appended if round `selected` has no answer."""
    cost = trace.cost
    execution = rounds[selected].execution
    if fallback == "native" and (execution is None or execution.status != "ok"):
        direct = next((round for round in trace.rounds if round.prompt_kind == FALLBACK), None)
        if direct is None:
            direct, more = _direct(trace, native)
            cost += more
        rounds = (*rounds, direct)
        selected = len(rounds) - 1
        execution = direct.execution
    # By identity: two rounds of equal content are two rounds, each with its cost.
    dropped = [round for round in trace.rounds if not any(round is other for other in rounds)]
    is_same = trace.selected is not None and trace.rounds[trace.selected] is rounds[selected]
    is_first = rounds[selected] is trace.rounds[0]
    return replace(
        trace,
        rounds=rounds,
        final=trace.first if is_first or execution is None else execution.answer,
        selected=selected,
        refined=refined,
        # The benchmark's own parser read another answer.
        official=trace.official if is_same else None,
        cost=_without(cost, dropped),
    )


def _direct(trace: Trace, native: Trace | None) -> tuple[Round, Cost]:
    """The fallback's round, from a run of method native, and its cost there. Raises NoFallback, and RunError
    for a run on other questions."""
    if native is None:
        raise NoFallback(
            f"question {trace.question_id!r}: its run has no direct answer to fall back on; pass a run of "
            "method native on the same questions"
        )
    if (native.question, native.choices) != (trace.question, trace.choices):
        raise RunError(
            f"question {trace.question_id!r} has a different text or options in the run of method native; "
            "pass a run on the same benchmark"
        )
    if native.final is None or not native.rounds:
        raise NoFallback(
            f"question {trace.question_id!r} has no answer in the run of method native; re-run that run's "
            "command with --redo-errors"
        )
    return replace(native.rounds[-1], prompt_kind=FALLBACK, mode="native"), native.cost


NativeTraces = Mapping[str, Trace]
"""Question ids to the traces of a run of method native, which give the fallback answers."""
Rescoring = Callable[[Trace, Trace | None], Trace]
"""Maps a trace, and the question's native trace if there is one, to the trace under another rule. Raises
NoFallback if the native trace is needed and missing."""


def _by_answer_rule(rule: AnswerRule) -> Rescoring:
    return lambda trace, native: rescore_by_rule(trace, rule, native)


NATIVE = "+ native"
"""Suffix of the names of rescorings with a native fallback."""
RESCORINGS: Mapping[str, Rescoring] = {
    "first": lambda trace, _: rescore_before_refinement(trace),
    f"first {NATIVE}": lambda trace, native: rescore_before_refinement(trace, "native", native),
    "last": _by_answer_rule(AnswerRule("last")),
    f"last {NATIVE}": _by_answer_rule(AnswerRule("last", "native")),
    "last-answered": _by_answer_rule(AnswerRule("last-answered")),
    f"last-answered {NATIVE}": _by_answer_rule(AnswerRule("last-answered", "native")),
}
"""Ways to score a run with refinement, by the names that tables use."""
RESCORINGS_NOTE = (
    "first: before refinement. last: the last program's answer, failed or not (the paper's rule). "
    "last-answered: the latest answer that any program gave. + native: questions that are then without an "
    "answer get the direct one, of a run of method native with the same model."
)
"""Explains these names below a table."""


def rescore_all(
    traces: Iterable[Trace], rescoring: Rescoring, natives: NativeTraces
) -> tuple[Trace, ...] | None:
    """All traces rescored; None if one of them needs a fallback answer that is missing."""
    try:
        return tuple(rescoring(trace, natives.get(trace.question_id)) for trace in traces)
    except NoFallback:
        return None


def rescore_always_program(trace: Trace, program: Trace) -> Trace:
    """The trace as if the planner had always written a program: its own first program where it chose one;
    where it chose native reasoning, the question's trace under method program (`program`).

    A planner that was trained on the adaptive prompt writes worse programs under another prompt. Replacing
    only the native answers compares modes and not prompts.
    """
    first = rescore_before_refinement(trace)
    return rescore_before_refinement(program) if first.rounds and first.rounds[0].mode == "native" else first


def without_stored_rounds(trace: Trace) -> Trace:
    """The trace without the rounds that were only stored for other thresholds, and without their cost."""
    if trace.selected is None:
        return trace
    counts = trace.rounds[trace.selected]
    stored = [round for round in trace.rounds[trace.refined + 1 :] if round is not counts]
    if not stored:
        return trace
    remaining = tuple(round for round in trace.rounds if not any(round is other for other in stored))
    selected = next(index for index, round in enumerate(remaining) if round is counts)
    return replace(trace, rounds=remaining, selected=selected, cost=_without(trace.cost, stored))


def _without(cost: Cost, rounds: Iterable[Round]) -> Cost:
    part = sum(
        (
            round.planning + (round.execution.cost if round.execution is not None else Cost())
            for round in rounds
        ),
        Cost(),
    )
    return replace(
        cost,
        # The parts may add up to a rounding more than the whole.
        seconds=max(0.0, cost.seconds - part.seconds),
        frames=max(0.0, cost.frames - part.frames),
        calls=max(0.0, cost.calls - part.calls),
        tokens_in=max(0.0, cost.tokens_in - part.tokens_in),
        tokens_out=max(0.0, cost.tokens_out - part.tokens_out),
    )
