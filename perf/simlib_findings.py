"""What the cells of perf/simlib_claims.py say: shares, and differences with intervals over seeds and stories
and p over seeds, corrected over all differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perf.pairs import holm, t_test

Sums = Mapping[str, Mapping[str, Sequence[float]]]
"""By part of the questions and name, a number for each story."""
Array = NDArray[np.float64]
_RESAMPLES = 2000


def by_story(sums: Sums, name: str, gist: float | None = None) -> tuple[Array, Array]:
    """The sums of a name for each story, and the numbers of questions. `gist`: the share of questions about
    the whole video that these are weighted to; None: as they are."""
    counts = {part: np.array(found["n"]) for part, found in sums.items()}
    weights = dict.fromkeys(sums, 1.0)
    if gist is not None:
        total = {part: float(count.sum()) for part, count in counts.items()}
        weights = {"gist": gist / total["gist"], "other": (1 - gist) / total["other"]}
    values = sum(weights[part] * np.array(found[name]) for part, found in sums.items())
    return np.asarray(values, dtype=float), np.asarray(
        sum(weights[part] * counts[part] for part in sums), dtype=float
    )


def mean(sums: Sums, name: str, gist: float | None = None) -> float:
    """The mean of a name over questions."""
    values, counts = by_story(sums, name, gist)
    return float(values.sum() / counts.sum())


def difference(gaps: Sequence[tuple[Array, Array]]) -> dict[str, Any]:
    """The mean difference over seeds, given for each seed the differences summed by story and the numbers of
    questions: with a 95 % interval (seeds and stories drawn again, both), and Student's p over seeds."""
    values, counts = np.stack([gap for gap, _ in gaps]), np.stack([count for _, count in gaps])
    seeds = values.sum(1) / counts.sum(1)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(_RESAMPLES):
        which = rng.integers(len(seeds), size=len(seeds))
        # Each seed has stories of its own.
        stories = rng.integers(values.shape[1], size=values.shape)
        part, count = (np.take_along_axis(each[which], stories, 1) for each in (values, counts))
        drawn.append((part.sum(1) / count.sum(1)).mean())
    low, high = np.quantile(drawn, [0.025, 0.975])
    p = t_test(seeds.tolist()) if len(set(seeds.tolist())) > 1 else None
    return {
        "difference": round(float(seeds.mean()), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
        "seeds": len(seeds),
        "p": None if p is None else round(p, 5),
    }


def corrected(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The differences with Holm's p over all of them."""
    named = [name for name, each in found.items() if each["p"] is not None]
    ps = holm([found[name]["p"] for name in named])
    return {
        name: {**each, "holm": round(ps[named.index(name)], 4) if name in named else None}
        for name, each in found.items()
    }


# ---- the claims --------------------------------------------------------------------------------------------

GISTS = (0.1, 0.3, 0.6)
"""Shares of questions about the whole video."""
LEARNED = (
    ("grpo", "start", "first"),
    ("grpo", "more-rows", "first"),
    ("grpo", "rejection", "first"),
    ("rejection-grpo", "grpo", "first"),
    ("grpo", "grpo-no-mode", "first"),
    ("grpo", "grpo-shuffled-mode", "first"),
    ("grpo-expected-mode", "grpo", "first"),
    ("grpo-evidence", "grpo-random-evidence", "first"),
    ("grpo-evidence", "grpo-random-evidence", "overlap"),
    *(("start", f"{how}without-R{kind}", "final") for how in ("", "tokens-") for kind in (1, 2, 3, 4)),
)
"""Pairs of arms, and what is compared: `first`, `final` or `overlap`."""


def shares(
    cells: Mapping[str, Mapping[str, Any]], world: str, usual: str, names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The means of these names for each arm, over its seeds."""
    arms: dict[str, list[Mapping[str, Any]]] = {}
    for name, cell in cells.items():
        if world in cell:
            arms.setdefault(name.split("/")[0], []).append(cell)
    return {
        arm: {
            "seeds": len(found),
            "cpu_s": float(np.mean([cell["cpu_s"] for cell in found])),
            **{name: float(np.mean([mean(cell[world][usual], name) for cell in found])) for name in names},
        }
        for arm, found in arms.items()
    }


def refinement(sums: Sums) -> dict[str, tuple[Array, Array]]:
    """By story: what refinement gains over the first program, over the surer of two samples at as many
    programs, and of answers that are unsure but have not failed."""
    share = mean(sums, "refined")
    (final, n), (first, _) = by_story(sums, "final"), by_story(sums, "first")
    two, _ = by_story(sums, "surer_of_samples")
    after, before = by_story(sums, "final_of_unsure")[0], by_story(sums, "first_of_unsure")[0]
    return {
        "refined over first": (final - first, n),
        "refined over surer of two": (final - (1 - share) * first - share * two, n),
        "refined over first, unsure alone": (after - before, n),
    }


def routing(sums: Sums, gist: float) -> tuple[Array, Array]:
    """By story: the planner's own choice of mode, less a random one with the same share of direct looks."""
    share = mean(sums, "native", gist)
    first, n = by_story(sums, "first", gist)
    direct, program = by_story(sums, "direct", gist)[0], by_story(sums, "program", gist)[0]
    return first - share * direct - (1 - share) * program, n


def findings(cells: Mapping[str, Mapping[str, Any]], world: str, usual: str) -> dict[str, dict[str, Any]]:
    """Each difference that the cells of a world allow (two seeds or more), with Holm's p over all."""

    def of(arm: str) -> dict[str, Mapping[str, Sums]]:
        found = {name.split("/")[1]: cell for name, cell in cells.items() if name.split("/")[0] == arm}
        return {seed: cell[world] for seed, cell in found.items() if world in cell}

    gaps: dict[str, list[tuple[Array, Array]]] = {}
    for arm in ("faultless", "faultless-look", "start"):
        for channels in of(arm).values():
            for channel, sums in channels.items():
                for what, gap in refinement(sums).items():
                    if arm != "start" and "unsure alone" in what:
                        continue  # those without a fault never fail: it is the same as over the first
                    gaps.setdefault(f"{arm}, {channel}: {what}", []).append(gap)
    for starts in of("start").values():
        for gist in GISTS:
            name = f"start, {gist:.0%} about the whole: routing over random routing"
            gaps.setdefault(name, []).append(routing(starts[usual], gist))
    for first, second, what in LEARNED:
        ours, others = of(first), of(second)
        for seed in sorted(ours.keys() & others.keys()):
            (a, n), (b, _) = (by_story(each[seed][usual], what) for each in (ours, others))
            gaps.setdefault(f"{first} over {second}: {what}", []).append((a - b, n))
    return corrected({name: difference(each) for name, each in gaps.items() if len(each) > 1})
