"""The shipped planner's programs, written greedily and sampled, on the same questions: of stored traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from perf.stored import configs, traces, written
from videopro.scoring import SeedRow, seed_table
from videopro.traces import Trace

SAMPLED = "pocket-sampled"
"""The folder of docs/results with the sampled runs, and with those on val."""
SEEDS = (0, 1, 2)
_GREEDY = {"test": ("pocket-sft", "videopro-1"), "a fresh world": ("pocket-fresh", "shipped-videopro")}
_PREFIX = {"test": "", "a fresh world": "fresh-"}
WORLDS = tuple(_GREEDY)


@cache
def compared(world: str) -> Mapping[str, Any]:
    """The numbers of the sampled runs of a world, and of the greedy run on the same questions, as `videopro
    seeds` counts them, by their decoding. Raises KeyError if the runs are not of the decodings they stand
    for, ValueError if the seeds have other questions."""
    folder, run = _GREEDY[world]
    names = [f"{_PREFIX[world]}videopro-{seed}" for seed in SEEDS]
    (how,) = {written(configs(SAMPLED)[name]) for name in names}
    if written(configs(folder)[run]) != "greedy" or not how.startswith("sampled"):
        raise KeyError(f"{world}: the runs are {written(configs(folder)[run])} and {how}")
    sampled = [traces(SAMPLED, name) for name in names]
    (asked,) = {frozenset(trace.question_id for trace in own) for own in sampled}
    greedy = [trace for trace in traces(folder, run) if trace.question_id in asked]
    return _numbers({"greedy": [greedy], how: sampled})


@cache
def on_val() -> Mapping[str, Any]:
    """The same for each decoding that was tried on val, with one seed."""
    return _numbers(
        {
            written(config): [traces(SAMPLED, name)]
            for name, config in sorted(configs(SAMPLED).items())
            if name.startswith("val-")
        }
    )


def _numbers(runs: Mapping[str, Sequence[Sequence[Trace]]]) -> Mapping[str, Any]:
    rows = [
        SeedRow(how, (), seeds=tuple(map(tuple, seeds)), recorded=tuple(map(tuple, seeds)))
        for how, seeds in runs.items()
    ]
    return {row["name"]: row for row in seed_table(rows, {}, {})}
