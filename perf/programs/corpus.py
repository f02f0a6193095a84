"""Hostile and malformed programs by the thousand, in named families, from a seed.

Each program is what a broken or malicious planner might write against `videopro.executor`. They know what
they would have to harm: `secret` (a path), `port` (a listener), `pid` (the host), `other` (another process).
The last families mutilate the ordinary programs and the hostile ones. `perf/hostile.py` runs them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

# Each registers its families, and the corpus of a seed follows their order.
from perf.programs import escapes, excess, forgeries, neighbours  # noqa: F401
from perf.programs.families import FAMILIES as FAMILIES
from perf.programs.families import family
from perf.programs.ordinary import ORDINARY


def mutilated(text: str, chance: random.Random) -> str:
    """A program with a few of its words, lines or characters changed, doubled, moved or gone."""
    for _ in range(chance.randint(1, 4)):
        if not text:
            return text
        how = chance.randrange(6)
        if how == 0:
            at = chance.randrange(len(text))
            text = (
                text[:at]
                + chance.choice(["", "(", "]", "'", "\n", " ", ":", "\x00", "=", "."])
                + text[at + 1 :]
            )
        elif how == 1:
            lines = text.split("\n")
            del lines[chance.randrange(len(lines))]
            text = "\n".join(lines)
        elif how == 2:
            lines = text.split("\n")
            lines.insert(chance.randrange(len(lines)), chance.choice(lines))
            text = "\n".join(lines)
        elif how == 3:
            tokens = sorted(set(re.findall(r"\w+", text)))
            old, new = chance.choice(tokens or [" "]), chance.choice(tokens or [" "])
            text = re.sub(rf"\b{re.escape(old)}\b", lambda m, new=new: new, text, count=chance.choice((0, 1)))
        elif how == 4:
            text = re.sub(r"\b\d+\b", lambda m: str(chance.choice((-1, 0, 10**9, 10**30))), text, count=1)
        else:
            text = text[: chance.randrange(len(text))]
    return text


@family("mutilated ordinary programs")
def _fuzzed(chance: random.Random) -> str:
    return mutilated(chance.choice(list(ORDINARY.values())), chance)


@family("mutilated hostile programs")
def _fuzzed_hostile(chance: random.Random) -> str:
    families = [name for name in FAMILIES if not name.startswith("mutilated")]
    return mutilated(FAMILIES[chance.choice(families)](chance), chance)


# Slow by nature: each runs into a limit of time.
SLOW = ("disarmed timers", "sleeps", "loops", "loops inside C", "ends that are swallowed")
FUZZED = ("mutilated ordinary programs", "mutilated hostile programs")


def corpus(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` programs with the names of their families; the same ones for the same seed.

    A quarter is mutilated from others; of the slow families there are fewer.
    """
    chance = random.Random(seed)
    weights = {name: 0.3 if name in SLOW else 1.0 for name in FAMILIES if name not in FUZZED}
    shares = {name: 0.75 * weight / sum(weights.values()) for name, weight in weights.items()}
    shares.update({FUZZED[0]: 0.2, FUZZED[1]: 0.05})
    numbers = {name: max(1, round(count * share)) for name, share in shares.items()}
    numbers[FUZZED[0]] += count - sum(numbers.values())
    seen: set[str] = set()
    for name, number in numbers.items():
        for _ in range(number):
            text = FAMILIES[name](chance)
            for _ in range(30):  # A new one if there is one; small families repeat themselves.
                if text not in seen:
                    break
                text = FAMILIES[name](chance)
            seen.add(text)
            yield name, text
