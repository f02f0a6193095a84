"""Runs the cells of "reads" that the record lacks: planners on a library that is fixed, dropped from,
renamed, or renamed by a curriculum.

    python -m perf.simlib [--arms curriculum fixed] [--sizes 0.5] [--seeds 0] [--worlds val]

A cell (arm, seed, size, steps) trains a decoder, and measures it on every test of these worlds. A killed cell
resumes from its checkpoint, and a finished one is in the record, which the same command completes. A cell
that lacks a world, and whose weights are not in the cache, is trained and measured again. `--worlds val test`
opens the test world; the hypotheses of docs/results/simlib.md were committed before it was. Writes
perf/simlib.json, with CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from perf.simlib_findings import corrected, difference
from videopro.cli import cache_root, check_least, did_you_mean, setting
from videopro.errors import ConfigError
from videopro.simlib import ARMS, TESTS, Decoder, DecoderPlanner, measure, shortcuts, train
from videopro.simlib.decoder import SIZES
from videopro.simlib.training import HAS_BFLOAT16

STORIES = {"val": 40, "test": 120}
"""Stories of each test, by world."""


@dataclass(frozen=True)
class SimlibSettings:
    """Train planners on libraries that are drawn anew, and measure what they read."""

    arms: tuple[str, ...] = field(default=tuple(ARMS), metadata=setting(f"arms to run: {', '.join(ARMS)}"))
    sizes: tuple[str, ...] = field(
        default=("0.5",), metadata=setting(f"millions of parameters: {', '.join(SIZES)}")
    )
    seeds: tuple[int, ...] = field(default=(0,), metadata=setting("seeds of training, 0 to 9"))
    steps: int = field(default=2000, metadata=setting("steps of a training, of 4 rows each"))
    worlds: tuple[str, ...] = field(
        default=("val",), metadata=setting("val alone, or also test to open the test world")
    )
    output: Path = field(default=ROOT / "perf" / "simlib.json", metadata=setting("file for the results"))

    def __post_init__(self) -> None:
        check_least(self, 1, "steps")
        for kind, names, known in (
            ("arm", self.arms, ARMS),
            ("size", self.sizes, SIZES),
            ("world", self.worlds, STORIES),
        ):
            for name in names:
                check_name(kind, name, known)
        check_seeds(self.seeds)


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise ConfigError for a name that is not known."""
    if name not in known:
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, [*known])}")


def check_seeds(seeds: Iterable[int]) -> None:
    """Raise ConfigError for a seed that has no stories of its own."""
    if wrong := [seed for seed in seeds if not 0 <= seed < 10]:
        raise ConfigError(f"seed {wrong[0]}: seeds go from 0 to 9")


def cell(
    arm: str, seed: int, size: str, steps: int, worlds: Sequence[str], row: dict[str, Any]
) -> dict[str, Any]:
    """The row of a cell with what it lacked."""
    folder = cache_root() / "simlib"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{arm}-{seed}-{size}-{steps}"
    weights, checkpoint = folder / f"{stem}.pt", folder / f"{stem}.checkpoint"
    if not row or not weights.exists():
        trained = train(arm, seed, size, steps, checkpoint=checkpoint)
        trained.decoder.save(weights)
        checkpoint.unlink(missing_ok=True)
        # All figures of a cell are of one planner: worlds that it had are measured again.
        worlds = [world for world in STORIES if world in {*worlds, *row}]
        row = {
            "questions": trained.questions,
            "parameters": sum(part.numel() for part in trained.decoder.parameters()),
            "cpu_s": round(trained.cpu_seconds, 1),
            "losses": trained.losses,
            "bfloat16": HAS_BFLOAT16,
        }
    planner = DecoderPlanner(Decoder.load(weights))
    for world in worlds:
        if world not in row:
            began = time.process_time()
            row[world] = {test: measure(planner, test, world, STORIES[world], seed=seed) for test in TESTS}
            row[f"{world}_cpu_s"] = round(time.process_time() - began, 1)
    return row


def by_arm(cells: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The cells of each world by arm, size and steps, over their seeds: the mean of each share, with the
    least and the most."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, row in cells.items():
        arm, _, size, steps = name.split("/")
        for world in STORIES:
            if world in row:
                groups.setdefault(f"{world}: {arm}, {size}, {steps}", []).append(row | row[world])
    return {
        name: {
            "seeds": len(rows),
            "questions": round(fmean(row["questions"] for row in rows)),
            "cpu_s": round(fmean(row["cpu_s"] for row in rows)),
            "tests": {test: _over_seeds([row[test] for row in rows]) for test in TESTS},
        }
        for name, rows in groups.items()
    }


def differences(cells: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The hypotheses of each world that compare shares of the oracle's programs: arms, and tests, over
    seeds."""
    pairs = {
        "curriculum over renamed, both": (("curriculum", "both"), ("renamed", "both")),
        "curriculum over renamed, fixed": (("curriculum", "fixed"), ("renamed", "fixed")),
        "curriculum, wordings over both": (("curriculum", "wordings"), ("curriculum", "both")),
        "renamed, wordings over both": (("renamed", "wordings"), ("renamed", "both")),
    }
    gaps: dict[str, dict[str, list[tuple[Any, Any]]]] = {world: {} for world in STORIES}
    for name, row in cells.items():
        arm, rest = name.split("/", 1)
        _, size, steps = rest.split("/")
        for world in STORIES:
            for what, ((first, test), (second, other)) in pairs.items():
                over = cells.get(f"{second}/{rest}", {})
                if arm == first and world in row and world in over:
                    gap = row[world][test]["same"] - over[world][other]["same"]
                    gaps[world].setdefault(f"{what}, {size}, {steps}", []).append(
                        (np.array([gap]), np.ones(1))
                    )
    return {
        world: corrected({name: difference(each) for name, each in found.items() if len(each) > 1})
        for world, found in gaps.items()
    }


def _over_seeds(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    shares = {
        "same": [each["same"] for each in found],
        "absent": [each["absent"] for each in found],
        "called": [each["called"] for each in found if "called" in each],
        "of_oracle": [each["right"] / each["oracle"] for each in found],
        # The whole library lacks nothing.
        "missing": [m["right"] / m["oracle"] for each in found if (m := each["missing"])["questions"]],
    }
    return {
        name: {"mean": round(fmean(of), 6), "low": round(min(of), 6), "high": round(max(of), 6)}
        for name, of in shares.items()
        if of
    }


def work(settings: SimlibSettings) -> None:
    torch.set_num_threads(1)
    cells = recorded_rows(settings.output, "reads", {"stories": STORIES})
    for size in settings.sizes:
        for seed in settings.seeds:
            for arm in settings.arms:
                name = f"{arm}/{seed}/{size}/{settings.steps}"
                row = cells.get(name, {})
                if set(settings.worlds) <= row.keys():
                    continue
                cells[name] = cell(arm, seed, size, settings.steps, settings.worlds, row)
                write_record(settings.output, {"stories": STORIES, "reads": cells})
    tables = {"shortcuts": shortcuts("val", 200), "by_arm": by_arm(cells), "differences": differences(cells)}
    record = {"stories": STORIES, **tables, "reads": cells}
    write_record(settings.output, record)
    print_tables("perf/simlib.json", record)


if __name__ == "__main__":
    run_command(SimlibSettings, work, "stopped; the same command goes on")
