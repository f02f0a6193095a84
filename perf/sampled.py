"""The shipped planner's programs, written greedily and sampled, on the same questions: of stored traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from perf.stored import configs, is_right_at_first, traces, written
from videopro.traces import Trace
from videopro.traces.scoring import SeedRow, seed_table

SAMPLED = "pocket-sampled"
"""The folder of docs/results with the sampled runs, WORLD-SEED, and with those on val, one for each way."""
_GREEDY = {"test": ("pocket-sft", "videopro-1"), "fresh": ("pocket-fresh", "shipped-videopro")}
"""Where the same planner's greedy runs are."""
WORLDS = tuple(_GREEDY)


@cache
def compared(world: str) -> Mapping[str, Any]:
    """The numbers of the sampled runs of a world under all their seeds, and of the greedy run, as `videopro
    seeds` counts them, on the questions of all these runs, by how the programs were written. Raises KeyError
    if a run was written in another way than it stands for."""
    folder, run = _GREEDY[world]
    names = sorted(name for name in configs(SAMPLED) if name.startswith(f"{world}-"))
    (how,) = {written(configs(SAMPLED)[name]) for name in names}
    if written(configs(folder)[run]) != "greedy" or not how.startswith("sampled"):
        raise KeyError(f"{world}: the runs are {written(configs(folder)[run])} and {how}")
    runs = [traces(folder, run), *(traces(SAMPLED, name) for name in names)]
    shared = set.intersection(*({trace.question_id for trace in run_traces} for run_traces in runs))
    greedy, *sampled = ([trace for trace in run_traces if trace.question_id in shared] for run_traces in runs)
    return _numbers({"greedy": [greedy], how: sampled})


def lost_at_first() -> tuple[int, int]:
    """Over all worlds and seeds: the answers that the first greedy program has right and the first sampled
    one has not, and those of them whose sampled program is not well-formed."""
    lost = []
    for world, (folder, run) in _GREEDY.items():
        right = {trace.question_id for trace in traces(folder, run) if is_right_at_first(trace)}
        for name in configs(SAMPLED):
            if name.startswith(f"{world}-"):
                sampled = traces(SAMPLED, name)
                lost += [one for one in sampled if one.question_id in right and not is_right_at_first(one)]
    return len(lost), sum(bool(trace.rounds[0].faults) for trace in lost)


@cache
def on_val() -> Mapping[str, Any]:
    """The same for each way that was tried on val, with one seed."""
    names = sorted(name for name in configs(SAMPLED) if name.startswith("val-"))
    return _numbers({written(configs(SAMPLED)[name]): [traces(SAMPLED, name)] for name in names})


def _numbers(runs: Mapping[str, Sequence[Sequence[Trace]]]) -> Mapping[str, Any]:
    rows = [
        SeedRow(how, (), seeds=tuple(map(tuple, seeds)), recorded=tuple(map(tuple, seeds)))
        for how, seeds in runs.items()
    ]
    return {row["name"]: row for row in seed_table(rows, {}, {})}
