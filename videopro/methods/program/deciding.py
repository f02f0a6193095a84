"""Which of a program's calls decided its letter, and how sure the letter therefore is: Eq. 2 carried through
the executed program.

A letter straight from an answering call has that call's confidence (`videopro.modules.calls.results`). One
that a program *reasons*, from yes or no, counts, times or comparisons, comes from no single call. Which calls
it comes from is found out and never claimed: modules are pure and their results recorded, so the program is
run again, in the same sandbox and with no model, with something else that one call could have returned
(`videopro.modules.replaying`).

- A call *decided* the letter if with some other result of it another letter comes out, or none whatever else
  it returns.
- Another result may lead the program to calls that were never made (`ReplayLibrary`). Where their results are
  not known, two guesses are tried, and the call decided if the letter differs under either: a program that
  takes another path, and answers the same whatever it finds there, did not let the call decide. If not even a
  guess is possible, the value led the program where nothing is recorded: it decided.
- If no call decided by itself, as in `a or b` when both hold, or a vote with a margin, several are changed
  together: the least sure one first, then the next as well, until the letter changes. Those of them that are
  needed decided together. Only one such set is looked for.
- Calls that see nearly the same are one *witness* (`witnesses`): thirty looks at one scene are right or wrong
  together. Among those that decided together it is as sure as the least sure of them.

Nothing decided: the letter is the same whatever the calls return, and stays a guess with confidence 0. So
does that of a program with something in its text that may tell a replay from a run (`isolated`), of one that
does not repeat itself, of one whose run and replays together take more than a program's time, and of one that
gives the same letter with what its calls returned on other videos (`OtherVideos`).

The confidence of the letter is the product of those of the deciding calls, as if their errors were
independent, or the least of them. Witnesses that decided together are wrong only if each is: their confidence
is 1 minus the product of the complements, or the greatest. A call without a confidence, such as a search,
changes nothing if there are others. Where only such calls decided, nothing says how sure the letter is: it
has the confidence of chance, one in the number of options.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, Literal

from cachetools import LRUCache

from videopro.executor import Limits, Outcome, Program, run
from videopro.methods.program.isolated import tells_replays
from videopro.modules import (
    MadeCall,
    ModuleLibrary,
    NeverMade,
    ReplayLibrary,
    call_key,
    emptied,
    other_results,
)
from videopro.modules.calls import AnswerHandle, HostHandle, read_program_answer
from videopro.question import Question
from videopro.traces import (
    CombiningRule,
    Control,
    DecidingCalls,
    Execution,
    FrameRef,
    Reasoned,
    ReasonedRule,
    cited_calls,
)

REASONED: ReasonedRule = "product"
"""The rule by default, chosen on pocket's val (`python -m perf.deciding`)."""
REASONED_HELP = (
    "confidence of a letter that a program derives from the results of calls: product or least (over the "
    "calls that decided it), or none (0: a guess)"
)
NEAR_SECONDS = 5.0
"""Frames that are at most this far apart show nearly the same."""
OTHER_VIDEOS = 5
"""With how many other videos' results a letter is tried (`OtherVideos`): the least with which no honest
program became a guess on pocket's val."""


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
    ran: Outcome,
    others: OtherVideos | None = None,
) -> tuple[float, Reasoned]:
    """The confidence of a letter that a program reasoned, and how it came about. `library`: that of its run,
    with `inputs`, which came out as `ran`: what time that took is no longer there for replays."""
    search = _Search(program, question, library, inputs, letter, rule, limits, ran)
    try:
        sets = search.deciding(others)
    except _Unknowable as error:
        return 0.0, Reasoned(rule, replays=search.replays, why_guess=str(error))
    why_guess = "" if sets else "no call's result changes the letter"
    return confidence_of(sets, rule, len(question.choices)), Reasoned(rule, sets, search.replays, why_guess)


def controls(
    program: Program,
    question: Question,
    library: ModuleLibrary,
    inputs: Mapping[str, Any],
    execution: Execution,
    limits: Limits,
    ran: Outcome,
) -> dict[str, Control]:
    """The letters of a program's replays with the results of the calls that its answer cites emptied, and
    with those of all others. A replay fails where the program raises an error, makes another call, or cannot
    be replayed. `library`, `inputs`, `ran`: as of `reasoned_confidence`."""
    letter = execution.answer.letter
    if letter is None:
        return {}
    search = _Search(program, question, library, inputs, letter, "product", limits, ran)
    # Equal calls are one of those made, and have equal results.
    cited = [(call.fn, call.args) for call in cited_calls(execution)]
    made = {key: call for key, call in library.made.items() if call.error is None}
    of = {key: library.calls[call.position] for key, call in made.items()}
    without = {key: emptied(made[key]) for key in made if (of[key].fn, of[key].args) in cited}
    alone = {key: emptied(made[key]) for key in made if key not in without}
    return {"without": search.control(without), "alone": search.control(alone)}


def confidence_of(sets: Sequence[DecidingCalls], rule: CombiningRule, options: int) -> float:
    """How sure a letter is that these calls decided; 0 if there are none. `options`: of its question."""
    if not sets:
        return 0.0
    confidences = [calls.confidence for calls in sets if calls.confidence is not None]
    if not confidences:
        return 1 / options
    return math.prod(confidences) if rule == "product" else min(confidences)


def _together(confidences: Sequence[float | None], rule: CombiningRule) -> float | None:
    """How sure witnesses are of which one right one is enough."""
    recorded = [confidence for confidence in confidences if confidence is not None]
    if not recorded:
        return None
    return 1 - math.prod(1 - confidence for confidence in recorded) if rule == "product" else max(recorded)


# ---- witnesses -------------------------------------------------------------------------------------------


def witnesses(library: ModuleLibrary) -> list[set[Hashable]]:
    """The calls of a run, those together that see nearly the same: calls of one module that ask nearly the
    same (half of the words of the shorter question are in the other) of overlapping parts of frames at most
    NEAR_SECONDS apart. Nearness is handed on: a row of frames is one witness as far as it goes."""
    joined: list[set[Hashable]] = []
    asked = {key: _words(call) for key, call in library.made.items()}

    def are_near(one: Hashable, other: Hashable) -> bool:
        call, other_call = library.made[one], library.made[other]
        shared, fewest = len(asked[one] & asked[other]), min(len(asked[one]), len(asked[other]))
        if call.module.name != other_call.module.name or 2 * shared < fewest:
            return False
        frames = library.calls[other_call.position].frames
        return any(_overlap(a, b) for a in library.calls[call.position].frames for b in frames)

    for key in library.made:
        near = [witness for witness in joined if any(are_near(key, other) for other in witness)]
        joined = [witness for witness in joined if witness not in near]
        joined.append({key}.union(*near))
    return joined


def _words(call: MadeCall) -> set[str]:
    """What a call asks about."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    texts = " ".join(value for value in call.values.values() if isinstance(value, str))
    return set(re.findall(r"[^\W\d_]+", texts.lower())).difference(STOPWORDS_EN_PLUS)


def _overlap(one: FrameRef, other: FrameRef) -> bool:
    if abs(one[0] - other[0]) > NEAR_SECONDS:
        return False
    x0, y0, x1, y1 = one[3:] or (0, 0, 1, 1)
    left, top, right, bottom = other[3:] or (0, 0, 1, 1)
    return x0 < right and left < x1 and y0 < bottom and top < y1


# ---- other videos ------------------------------------------------------------------------------------------


class OtherVideos:
    """What calls returned on other videos, to be exchanged for what they returned on this one.

    Of a call that gives the same on every video, such as "Is this a video?", no text shows that it says
    nothing of this one. Where a call with the same words was made on OTHER_VIDEOS other videos, the program
    is run with their results: if the letter never changes, it is the same whatever the video.

    What programs' calls return is known to others after `settle`, which the runner of the programs calls
    between batches: no letter depends on which program of a batch ran first. Threads may share it.
    """

    def __init__(self) -> None:
        self._known: LRUCache[Hashable, dict[str, dict[Hashable, Any]]] = LRUCache(20_000)
        self._new: list[ModuleLibrary] = []
        self._lock = threading.Lock()

    def add(self, library: ModuleLibrary) -> None:
        """Take the calls of a program that has ended."""
        self._new.append(library)

    def settle(self) -> None:
        """Make known what was added."""
        with self._lock:
            new, self._new = self._new, []
            for library in sorted(new, key=lambda library: library.context.video.id):
                video = library.context.video.id
                for key, call in library.made.items():
                    by_video = self._known.setdefault(_asked(call), {})
                    is_wanted = video in by_video or len(by_video) <= OTHER_VIDEOS
                    if is_wanted and call.error is None and not _holds_handles(call.result):
                        by_video.setdefault(video, {})[key] = call.result

    def exchanged(self, library: ModuleLibrary, deciding: Sequence[Hashable]) -> list[dict[Hashable, Any]]:
        """What the calls of a run return with the results of each of OTHER_VIDEOS other videos in place of
        theirs; empty if one of the deciding calls was made on fewer."""
        own = library.context.video.id
        found: dict[Hashable, list[Any]] = {}
        with self._lock:
            for place, (key, call) in enumerate(library.made.items()):
                known = self._known.get(_asked(call), {})
                results = [
                    known[video][sorted(known[video], key=repr)[place % len(known[video])]]
                    for video in sorted(known)
                    if video != own
                ]
                if len(results) >= OTHER_VIDEOS:
                    found[key] = results
        if not all(key in found for key in deciding):
            return []
        return [{key: results[n] for key, results in found.items()} for n in range(OTHER_VIDEOS)]


def _asked(call: MadeCall) -> Hashable:
    """A call without what it looked at."""
    return call_key(call.module, {k: v for k, v in call.values.items() if not _holds_handles(v)})


def _holds_handles(value: Any) -> bool:
    """Whether a value holds a part of one video."""
    if isinstance(value, list | tuple):
        return any(_holds_handles(part) for part in value)
    return isinstance(value, HostHandle) and not isinstance(value, AnswerHandle)


# ---- the search ------------------------------------------------------------------------------------------


@dataclass
class _Search:
    """Finds out which calls of one program decided its letter."""

    program: Program
    question: Question
    library: ModuleLibrary
    inputs: Mapping[str, Any]
    letter: str
    rule: CombiningRule
    limits: Limits
    ran: InitVar[Outcome]
    replays: int = 0
    failure: str = ""
    """The error of the latest replay; empty: it ended."""

    def __post_init__(self, ran: Outcome) -> None:
        self._cpu_left = self.limits.cpu_seconds - ran.cpu_seconds
        self._wall_left = self.limits.wall_seconds - _own_seconds(ran, self.library)

    def deciding(self, others: OtherVideos | None) -> tuple[DecidingCalls, ...]:
        """The witnesses that decided, each by itself, or those that did together. Raises _Unknowable."""
        library = self.library
        if not library.is_replayable:
            raise _Unknowable("one of its calls failed")
        if telling := tells_replays(self.program.code):
            raise _Unknowable(f"it uses {telling}, so it may distinguish a replay from its run")
        self._check_repeats()
        texts = self.question.choices
        alternatives = {
            key: other_results(call, texts, library.context) for key, call in library.made.items()
        }
        sets = [[key] for key, results in alternatives.items() if self._decides(key, results)]
        if not sets and (together := self._joint(alternatives)):
            sets = [together]
        if sets:
            # A program that depends on more than its calls has another letter at one time or another.
            self._check_repeats()
        if sets and others is not None:
            exchanged = others.exchanged(library, [key for keys in sets for key in keys])
            if exchanged and all(map(self._is_same, exchanged)):
                raise _Unknowable(f"the letter is the same with the results of {OTHER_VIDEOS} other videos")
        return tuple(self._deciding_calls(keys) for keys in sets)

    def _is_same(self, changed: Mapping[Hashable, Any]) -> bool:
        """Whether the letter is the same with these results, and they are all that the program asks for."""
        replay, letter = self._replay(changed)
        return letter == self.letter and self.library.made.keys() >= set(replay.repeated)

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
        confidence = self.library.made[key].confidence
        return math.inf if confidence is None else confidence

    def _deciding_calls(self, keys: Sequence[Hashable]) -> DecidingCalls:
        """One call, or several that decided together: of those that see nearly the same, the least sure one
        counts."""
        made = self.library.made
        sure = []
        for witness in witnesses(self.library) if len(keys) > 1 else [set(keys)]:
            confidences = [made[key].confidence for key in keys if key in witness]
            sure += [min((c for c in confidences if c is not None), default=None)]
        return DecidingCalls(tuple(made[key].position for key in keys), _together(sure, self.rule))

    # ---- replays -------------------------------------------------------------------------------------------

    def _check_repeats(self) -> None:
        """Raise _Unknowable unless the program makes the same calls and gives the same letter again."""
        try:
            replay, letter = self._replay({})
        except NeverMade as call:
            raise _Unknowable(
                f"{call}() is not cached and looks at the video: it has no kept result"
            ) from None
        if letter != self.letter or list(dict.fromkeys(replay.repeated)) != list(self.library.made):
            raise _Unknowable("it does not repeat its calls on the same results")

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
        if any(letter not in (self.letter, None) for letter in letters):
            return "other"
        return "same" if self.letter in letters else "none"

    def control(self, changed: Mapping[Hashable, Any]) -> Control:
        """The letter with these results, of a replay that makes no other calls and ends."""
        try:
            replay, letter = self._replay({})
            if letter != self.letter:
                return Control(failure="it does not repeat its letter")
            replay, letter = self._replay(changed)
        except NeverMade as call:
            return Control(failure=f"{call}() has no kept result")
        except _Unknowable as error:
            return Control(failure=str(error))
        if not self.library.made.keys() >= set(replay.repeated):
            return Control(failure="it makes other calls")
        return Control(letter, self.failure)

    def _replay(self, changed: Mapping[Hashable, Any], guess: int = 0) -> tuple[ReplayLibrary, str | None]:
        """Run the program with these results changed. Returns its calls, and its letter (None: it failed, or
        gave none). Raises NeverMade, and _Unknowable when the budget of the replays is used up."""
        if self._cpu_left <= 0 or self._wall_left <= 0:
            raise _Unknowable("its replays timed out")
        self.replays += 1
        replay = ReplayLibrary(self.library, self.question, changed, guess)
        limits = replace(
            self.limits,
            cpu_seconds=min(self.limits.cpu_seconds, self._cpu_left),
            wall_seconds=min(self.limits.wall_seconds, self._wall_left),
        )
        outcome = run(
            self.program.code, replay.functions(), self.inputs, limits, replay.prelude, fatal=(NeverMade,)
        )
        self._cpu_left -= outcome.cpu_seconds
        self._wall_left -= _own_seconds(outcome, replay)
        if outcome.error is not None and outcome.error.type in ("CpuLimit", "WallLimit"):
            raise _Unknowable("its replays timed out")
        self.failure = "" if outcome.error is None else outcome.error.type
        if outcome.status == "failed":
            return replay, None
        return replay, read_program_answer(outcome.value, self.question)[0].letter


def _own_seconds(outcome: Outcome, library: ModuleLibrary) -> float:
    """What a program took of its wall time: the time in modules does not count (`Limits`)."""
    return outcome.seconds - sum(call.seconds for call in library.calls)
