"""Which of a program's calls decided its letter, and how sure the letter therefore is: Eq. 2 carried through
the executed program.

A letter straight from an answering call has that call's confidence (`videopro.modules.calls.results`). One
that a program *reasons*, from yes or no, counts, times or comparisons, comes from no single call. Which calls
it comes from is found out and never claimed: modules are pure and their results recorded, so the program is
run again, in the same sandbox and with no model, with something else that one call could have returned
(`videopro.modules.alternatives`).

- A call *decided* the letter if with some other result of it another letter comes out, or none whatever else
  it returns.
- Another result may lead the program to calls that were never made (`ReplayLibrary`). Where their results are
  not known, two guesses are tried, and the call decided if the letter differs under either: a program that
  takes another path, and answers the same whatever it finds there, did not let the call decide. If not even a
  guess is possible, the value led the program where nothing is recorded: it decided.
- If no call decided by itself, as in `a or b` when both hold, or a vote with a margin, several are changed
  together: the least sure one first, then the next as well, until the letter changes. Those of them that are
  needed decided together. Only one such set is looked for.

Nothing decided: the letter is the same whatever the calls return, and stays a guess with confidence 0. So
does that of a program that could tell a replay from a run (`isolated`), of one that does not repeat itself,
and of one whose replays use up four times a program's processor time, ten times its wall time or
MOST_REPLAYS.

The confidence of the letter is the product of those of the deciding calls, as if their errors were
independent, or the least of them. Several that decided together are wrong only if each is: their confidence
is 1 minus the product of the complements, or the greatest. A call without a confidence, such as a search,
changes nothing beside others. Where only such calls decided, nothing says how sure the letter is: it has the
confidence of chance, one in the number of options.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from videopro.executor import Limits, Program, run
from videopro.methods.program.isolated import tells_replays
from videopro.modules import ModuleLibrary, NeverMade, ReplayLibrary, other_results
from videopro.modules.calls import read_program_answer
from videopro.question import Question
from videopro.traces import CombiningRule, DecidingCalls, Reasoned, ReasonedRule

REASONED: ReasonedRule = "product"
"""The rule by default, chosen on pocket's val (`python -m perf.deciding`)."""
REASONED_HELP = (
    "confidence of a letter that a program reasons from what calls returned: product or least (of those of "
    "the calls that decided it), or none (0: it is a guess)"
)
MOST_REPLAYS = 512
"""More than a program of 256 calls needs that let two other results be tried of each."""
# What all replays of a program may take, in multiples of its own budgets. Far more than ordinary ones take:
# also on a busy machine a letter must not become a guess.
_CPU_FACTOR, _WALL_FACTOR = 4, 10


class _Unknowable(Exception):
    """Which calls decided cannot be found out; says why."""


Effect = Literal["same", "other", "none"]
"""What a change does to the letter: nothing, another one comes out, or none does."""


def reasoned_confidence(
    program: Program,
    question: Question,
    library: ModuleLibrary,
    inputs: Mapping[str, Any],
    letter: str,
    rule: CombiningRule,
    limits: Limits,
) -> tuple[float, Reasoned]:
    """The confidence of a letter that a program reasoned, and how it came about. `library`: that of its run,
    with `inputs`."""
    search = _Search(program, question, library, inputs, letter, rule, limits)
    try:
        sets = search.deciding()
    except _Unknowable as error:
        return 0.0, Reasoned(rule, replays=search.replays, why_guess=str(error))
    why_guess = "" if sets else "no call's result changes the letter"
    return confidence_of(sets, rule, len(question.choices)), Reasoned(rule, sets, search.replays, why_guess)


def confidence_of(sets: Sequence[DecidingCalls], rule: CombiningRule, options: int) -> float:
    """How sure a letter is that these calls decided; 0 if there are none. `options`: of its question."""
    if not sets:
        return 0.0
    confidences = [calls.confidence for calls in sets if calls.confidence is not None]
    if not confidences:
        return 1 / options
    return math.prod(confidences) if rule == "product" else min(confidences)


def _together(confidences: Sequence[float | None], rule: CombiningRule) -> float | None:
    """How sure calls are of which one right one is enough."""
    recorded = [confidence for confidence in confidences if confidence is not None]
    if not recorded:
        return None
    return 1 - math.prod(1 - confidence for confidence in recorded) if rule == "product" else max(recorded)


class _Search:
    """Finds out which calls of one program decided its letter."""

    def __init__(
        self,
        program: Program,
        question: Question,
        library: ModuleLibrary,
        inputs: Mapping[str, Any],
        letter: str,
        rule: CombiningRule,
        limits: Limits,
    ) -> None:
        self.replays = 0
        self._program = program
        self._question = question
        self._library = library
        self._inputs = inputs
        self._letter = letter
        self._rule = rule
        self._limits = limits
        self._cpu_left = _CPU_FACTOR * limits.cpu_seconds
        self._wall_left = _WALL_FACTOR * limits.wall_seconds

    def deciding(self) -> tuple[DecidingCalls, ...]:
        """The calls that decided, each by itself, or those that did together. Raises _Unknowable."""
        library = self._library
        if not library.is_replayable:
            raise _Unknowable("a call of it could not be served")
        if telling := tells_replays(self._program.code):
            raise _Unknowable(f"it uses {telling}, by which it could tell a replay from its run")
        self._check_repeats()
        texts = self._question.choices
        alternatives = {
            key: other_results(call, texts, library.context) for key, call in library.made.items()
        }
        sets = [[key] for key, results in alternatives.items() if self._decides(key, results)]
        if not sets and (keys := self._joint(alternatives)):
            sets = [keys]
        if sets:
            # A program that depends on more than its calls has another letter at one time or another.
            self._check_repeats()
        return tuple(self._deciding_calls(keys) for keys in sets)

    def _decides(self, key: Hashable, results: Sequence[Any]) -> bool:
        """Whether another letter comes out for one of these results, or none for any of them."""
        is_same = not results
        for result in results:
            effect = self._effect({key: result})
            if effect == "other":
                return True
            is_same |= effect == "same"
        return not is_same

    def _joint(self, alternatives: Mapping[Hashable, Sequence[Any]]) -> list[Hashable]:
        """Calls that decided together: changed together they change the letter, and none of them can be left
        out; empty if there are none."""
        changed: dict[Hashable, Any] = {}
        for key in sorted(alternatives, key=self._sureness):
            if not alternatives[key]:
                continue
            changed[key] = alternatives[key][0]
            if len(changed) > 1 and self._effect(changed) == "other":
                break
        else:
            return []
        for key in list(changed)[:-1]:
            fewer = {other: result for other, result in changed.items() if other != key}
            if self._effect(fewer) == "other":
                changed = fewer
        return list(changed)

    def _sureness(self, key: Hashable) -> float:
        confidence = self._library.made[key].confidence
        return math.inf if confidence is None else confidence

    def _deciding_calls(self, keys: Sequence[Hashable]) -> DecidingCalls:
        calls = [self._library.made[key] for key in keys]
        return DecidingCalls(
            tuple(call.position for call in calls), _together([call.confidence for call in calls], self._rule)
        )

    # ---- replays -------------------------------------------------------------------------------------------

    def _check_repeats(self) -> None:
        """Raise _Unknowable unless the program makes the same calls and gives the same letter again."""
        try:
            replay, letter = self._replay({})
        except NeverMade as call:
            raise _Unknowable(
                f"{call}() is not cached and looks at the video: it has no kept result"
            ) from None
        if letter != self._letter or list(dict.fromkeys(replay.repeated)) != list(self._library.made):
            raise _Unknowable("it does not do the same with the same results")

    def _effect(self, changed: Mapping[Hashable, Any]) -> Effect:
        """What comes of these results in place of those of the run, whatever is guessed of other calls."""
        letters = []
        for guess in (0, 1):
            try:
                replay, letter = self._replay(changed, guess)
            except NeverMade:
                return "other"
            letters.append(letter)
            if not replay.is_guessed:
                break
        if any(letter not in (self._letter, None) for letter in letters):
            return "other"
        return "same" if self._letter in letters else "none"

    def _replay(self, changed: Mapping[Hashable, Any], guess: int = 0) -> tuple[ReplayLibrary, str | None]:
        """Run the program with these results changed. Returns its calls, and its letter (None: it failed, or
        gave none). Raises NeverMade, and _Unknowable when the budget of the replays is used up."""
        if self.replays >= MOST_REPLAYS or self._cpu_left <= 0 or self._wall_left <= 0:
            raise _Unknowable("its replays take too long")
        self.replays += 1
        replay = ReplayLibrary(self._library, self._question, changed, guess)
        limits = replace(
            self._limits,
            cpu_seconds=min(self._limits.cpu_seconds, self._cpu_left),
            wall_seconds=min(self._limits.wall_seconds, self._wall_left),
        )
        outcome = run(
            self._program.code, replay.functions(), self._inputs, limits, replay.prelude, fatal=(NeverMade,)
        )
        self._cpu_left -= outcome.cpu_seconds
        self._wall_left -= outcome.seconds
        if outcome.error is not None and outcome.error.type in ("CpuLimit", "WallLimit"):
            raise _Unknowable("its replays take too long")
        if outcome.status == "failed":
            return replay, None
        return replay, read_program_answer(outcome.value, self._question)[0].letter
