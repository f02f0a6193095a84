"""What the cells of perf/simlib_claims.py say: shares, and differences with intervals and p over seeds, each
of which has stories of its own; p is corrected over all differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perf.pairs import holm, t_test
from videopro.traces.scoring import t_interval

Sums = Mapping[str, Mapping[str, Sequence[float]]]
"""By part of the questions and name, a number for each story."""
Array = NDArray[np.float64]


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


def difference(gaps: Sequence[tuple[Array, Array]], of: str = "seeds") -> dict[str, Any]:
    """The mean difference over seeds (or stories), given for each the differences summed by story and the
    numbers of questions: with Student's 95 % interval, and p."""
    means = [float(gap.sum() / count.sum()) for gap, count in gaps]
    found = t_interval(means)
    assert found is not None
    return {
        "difference": round(float(np.mean(means)), 6),
        "low": round(found[0], 6),
        "high": round(found[1], 6),
        "of": f"{len(means)} {of}",
        "p": max(0.0, t_test(means)) if len(set(means)) > 1 else None,
    }


def corrected(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The differences with Holm's p over all of them."""
    named = [name for name, each in found.items() if each["p"] is not None]
    ps = holm([found[name]["p"] for name in named])
    rounded = {
        name: {"p": round(found[name]["p"], 5), "holm": round(p, 4)}
        for name, p in zip(named, ps, strict=True)
    }
    return {name: {**each, "holm": None, **rounded.get(name, {})} for name, each in found.items()}


# ---- the claims --------------------------------------------------------------------------------------------

GISTS = (0.0, 0.1, 0.3, 0.6)
"""Shares of questions about the whole video."""
LEARNED = (
    ("grpo", "start", "first"),
    ("grpo", "more-sft", "first"),
    ("grpo", "rejection", "first"),
    ("rejection-grpo", "grpo", "first"),
    ("grpo", "grpo-no-mode", "first"),
    ("grpo", "grpo-shuffled-mode", "first"),
    ("grpo-expected-mode", "grpo", "first"),
    *(
        ("grpo-evidence", other, what)
        for other in ("grpo-random-evidence", "grpo")
        for what in ("first", "overlap")
    ),
    *(("start", f"{how}without-R{kind}", "final") for how in ("", "tokens-") for kind in (1, 2, 3, 4)),
)
PAIRS = (
    *(((first, what), (second, what)) for first, second, what in LEARNED),
    (("faultless-look", "final"), ("faultless", "first")),
)
"""Pairs of arms, each with what is compared: `first`, `final` or `overlap`."""


def shares(
    cells: Mapping[str, Mapping[str, Any]], world: str, usual: str, names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The means of these names, of those that an arm has, for each arm over its seeds; of steps also the
    fewest and the most."""
    arms: dict[str, list[Mapping[str, Any]]] = {}
    for name, cell in cells.items():
        if world in cell:
            arms.setdefault(name.split("/")[0], []).append(cell)
    return {
        arm: {
            "seeds": len(found),
            "cpu_s": float(np.mean([cell["cpu_s"] for cell in found])),
            **{
                name: float(over([cell.get("steps", 0) for cell in found]))
                for name, over in (("steps", np.mean), ("fewest_steps", min), ("most_steps", max))
            },
            **{
                name: float(np.mean([mean(cell[world][usual], name) for cell in found]))
                for name in names
                if name in found[0][world][usual]["other"]
            },
        }
        for arm, found in arms.items()
    }


def refinement(sums: Sums) -> dict[str, tuple[Array, Array]]:
    """By story: what refinement gains over the first program, over the surer of two samples at as many
    programs, over the second program at as many questions that are drawn at random, and of answers that are
    unsure but have not failed."""
    refined, n = by_story(sums, "refined")
    share = refined.sum() / n.sum()
    (final, _), (first, _) = by_story(sums, "final"), by_story(sums, "first")
    two, second = (by_story(sums, name)[0] for name in ("surer_of_samples", "second"))
    after, before = by_story(sums, "final_of_unsure")[0], by_story(sums, "first_of_unsure")[0]

    def over(control: Array) -> Array:
        gain = control - first
        # The share is one of these stories: what each adds to it is in its difference (the sum is 0).
        return np.asarray(final - first - share * gain - gain.sum() / n.sum() * (refined - share * n))

    return {
        "refined over first": (final - first, n),
        "refined over surer of two": (over(two), n),
        "refined over random replacement": (over(second), n),
        "refined over first, unsure alone": (after - before, n),
    }


def routing(sums: Sums, gist: float) -> dict[str, tuple[Array, Array]]:
    """By story: the planner's own choice of mode, less a random one with the same share of direct looks, less
    always a program, and less always a look. A program is the planner's own where a look is barred."""
    share = mean(sums, "native", gist)
    first, n = by_story(sums, "first", gist)
    direct, program = by_story(sums, "direct", gist)[0], by_story(sums, "program", gist)[0]
    return {
        "random routing": (first - share * direct - (1 - share) * program, n),
        "always a program": (first - program, n),
        "always a look": (first - direct, n),
    }


def findings(cells: Mapping[str, Mapping[str, Any]], world: str, usual: str) -> dict[str, dict[str, Any]]:
    """Each difference that the cells of a world allow (of two or more), with Holm's p over all."""

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
            for what, gap in routing(starts[usual], gist).items():
                gaps.setdefault(f"start, {gist:.0%} about the whole: routing over {what}", []).append(gap)
    for (first, what), (second, over) in PAIRS:
        ours, others = of(first), of(second)
        for seed in sorted(ours.keys() & others.keys()):
            (a, n), (b, _) = (
                by_story(each[seed][usual], name) for each, name in ((ours, what), (others, over))
            )
            name = f"{first} over {second}: {what}" + (f" over {over}" if over != what else "")
            gaps.setdefault(name, []).append((a - b, n))
    found = {}
    for name, each in gaps.items():
        if name.startswith("faultless"):  # nothing is trained: stories differ, and not seeds
            each = [(a, n) for gap, counts in each for a, n in zip(gap, counts, strict=True)]
        if len(each) > 1:
            found[name] = difference(each, "stories" if name.startswith("faultless") else "seeds")
    return corrected(found)
