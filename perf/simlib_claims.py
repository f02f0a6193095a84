"""Runs the experiments about the paper's claims on simlib, each with its control, as cells that the record
lacks.

    python -m perf.simlib_claims [--arms start grpo] [--seeds 0 1 2] [--worlds val]

A cell is an arm with a seed; each seed has its own stories in training and in each world, its own prompts and
starting planner. `start` is trained on all four kinds of rows that a teacher with faults makes; `without-R1`
to `-R4` on as many rows without one kind, and `tokens-without-R1` to `-R4` on as many tokens of replies, as
many in a step. The other arms go on from `start` for the same CPU seconds, those of the sandboxes included:
more SFT on the same rows, rejection, GRPO, both in turn, and GRPO with another reward. The record has for
each cell how many questions of each story are answered right, by the first program and after a refinement.
Refinement and routing are read from the planners that `start` trained, under other channels too; and from
planners without a fault: `faultless`, which writes the best program first, and `faultless-look`. Writes
perf/simlib_claims.json, with CPU seconds. `--worlds val test` opens the test world, after
docs/results/simlib.md had its hypotheses. A cell that lacks such a world, and whose weights are not in the
cache, is trained again, and measured on these and on the worlds that it had; with a new `start`, so are all
cells of its seed that went on from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from perf.simlib import check_name, check_seeds
from perf.simlib_findings import findings, mean, shares
from perf.timing import cpu_seconds
from videopro.cli import cache_root, setting
from videopro.errors import ConfigError
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.question import Question
from videopro.simlib import (
    Channel,
    Decoder,
    DecoderPlanner,
    Lesson,
    Rollout,
    adaptive_row,
    answer,
    look,
    teach,
)
from videopro.simlib import reinforcing as own
from videopro.simlib.asking import Scripted
from videopro.simlib.decoder import read_ids
from videopro.simlib.reinforcing import overlap
from videopro.simlib.routes import choices
from videopro.simlib.rows import Row
from videopro.simlib.story import Asked
from videopro.simlib.teaching import BOTH_STORED, NATIVE, lesson
from videopro.simlib.training import HAS_BFLOAT16, Learner
from videopro.traces import PLAN_KINDS, Execution, Round
from videopro.traces.scoring import Mode
from videopro.train.rewards import WEIGHTS, is_right

SIZE = "0.5"
STORIES = {"val": 40, "test": 60}
"""Stories by world."""
TAUGHT_STORIES, SEEN, ROWS = 800, 9_000, 20
"""Stories of the teacher's rows; rows that a start sees, and those of a step."""
SECONDS = 100.0
"""CPU seconds for which an arm goes on from a start."""
RATE, RATES = 3e-5, {"more-sft": 1e-3, "rejection": 1e-4}
"""Learning rates of the arms that go on (RATE: where RATES has none), chosen on val with seed 0 among these
and those of trials, which are arms such as grpo@1e-4."""
GROUPS, SAMPLES = 2, 8
"""Libraries of a step of GRPO and of rejection, and replies to each of their questions."""
QUESTIONS = 6
UNTOUCHED = 5
"""The stories of test of this seed and later ones had not been read when the last hypotheses were written."""
KINDS = ("R1", "R2", "R3", "R4")
CHANNELS = {
    f"{'informed' if tells else 'uninformed'} x {scale:.0f}": Channel(scale=scale, tells=tells)
    for scale in (1.0, 3.0)
    for tells in (True, False)
}
"""How much the modules err, and whether confidence says anything."""


USUAL = "informed x 1"
GIST, PARTS = ("weather", "main_place"), ("gist", "other")
SHOWN = ("first", "final", "surer_of_samples", "native", "frames", "overlap")


@dataclass(frozen=True)
class ClaimSettings:
    """Train and measure planners for the paper's claims, each with its control."""

    arms: tuple[str, ...] = field(
        default=(),
        metadata=setting("arms to run, such as start grpo, or grpo@1e-4 for another rate; unset: all"),
    )
    seeds: tuple[int, ...] = field(default=tuple(range(10)), metadata=setting("seeds of training, 0 to 9"))
    worlds: tuple[str, ...] = field(
        default=("val",), metadata=setting("val alone, or also test to open the test world")
    )
    output: Path = field(
        default=ROOT / "perf" / "simlib_claims.json", metadata=setting("file for the results")
    )

    def __post_init__(self) -> None:
        for arm in self.arms:
            name, at, rate = arm.partition("@")
            check_name("arm", name, ARMS)
            if at and not (goes_on(arm) and re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", rate)):
                raise ConfigError(f"arm {arm!r}: only {', '.join(GOING_ON)} take a rate, as in grpo@1e-4")
        for world in self.worlds:
            check_name("world", world, STORIES)
        check_seeds(self.seeds)


# ---- rows of the teacher -----------------------------------------------------------------------------------


def design() -> dict[str, Any]:
    """What the cells of a record share."""
    return {
        "stories": STORIES,
        "taught_stories": TAUGHT_STORIES,
        "seen": SEEN,
        "seconds": SECONDS,
        "rates": {"": RATE, **RATES},
        "libraries_of_a_step": GROUPS,
        "questions_of_a_library": QUESTIONS,
        "samples": SAMPLES,
    }


def kept(name: str) -> Path:
    """A file of the cache, for cells of this design."""
    digest = hashlib.sha256(json.dumps(design()).encode()).hexdigest()[:8]
    return cache_root() / "simlib" / f"claims-{digest}" / name


def taught(seed: int) -> list[tuple[str, Lesson]]:
    """The teacher's rows of a seed, each a lesson of its own with its kind."""
    path = kept(f"taught-{seed}.pt")
    if not path.exists():
        rows = []
        for number in range(TAUGHT_STORIES):
            row = adaptive_row("train", seed, number)
            for each in teach(row, np.random.default_rng([19, seed, number])):
                one = lesson(row, [each])
                rows.append((each.kind, one.reference, one.questions[0], one.replies[0]))
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(rows, path)
    rows = torch.load(path, weights_only=True)
    return [(kind, Lesson(reference, [question], [reply])) for kind, reference, question, reply in rows]


def tokens(lesson: Lesson) -> int:
    """The tokens of a lesson's replies."""
    return sum(map(len, lesson.replies))


def _rows_of(lesson: Lesson) -> int:
    return len(lesson.questions)


def chosen(rows: Sequence[tuple[str, Lesson]], arm: str) -> list[Lesson]:
    """An arm's rows: those of `start` are of all kinds, and as many as each of `without` can have; those of
    `tokens` have as many tokens as those of `start`."""
    # In a drawn order, so that each arm has rows from all stories.
    rows = [rows[at] for at in np.random.default_rng(31).permutation(len(rows))]
    most = min(sum(kind != left for kind, _ in rows) for left in KINDS)
    all_kinds = [each for _, each in rows][:most]
    if "without" not in arm:
        return all_kinds
    kept = [each for kind, each in rows if kind != arm[-2:]]
    if not arm.startswith("tokens"):
        return kept[:most]
    return kept[: int(np.searchsorted(np.cumsum([*map(tokens, kept)]), sum(map(tokens, all_kinds)))) + 1]


def batches(
    lessons: Sequence[Lesson],
    rng: np.random.Generator,
    size: Callable[[Lesson], int],
    most: float,
) -> Iterator[list[Lesson]]:
    """Batches of at least this size, without end, and what is left over when all rows were seen; rows about
    one library become one lesson."""
    # Stories stay together: their library is read once.
    groups: dict[str, list[Lesson]] = {}
    for each in lessons:
        groups.setdefault(str(each.reference), []).append(each)
    joined = [
        Lesson(g[0].reference, [each.questions[0] for each in g], [each.replies[0] for each in g])
        for g in groups.values()
    ]
    while True:
        batch: list[Lesson] = []
        for at in rng.permutation(len(joined)):
            batch.append(joined[at])
            if sum(map(size, batch)) >= most:
                yield batch
                batch = []
        if batch:
            yield batch


# ---- arms --------------------------------------------------------------------------------------------------


def fine_tuned(seed: int, arm: str) -> Learner:
    """A planner that is trained on an arm's rows until it has seen SEEN of them, or as many tokens of replies
    as `start` sees."""
    torch.manual_seed(seed)
    learner, seen = Learner(Decoder(SIZE), 3e-3), 0
    rows, rng = chosen(taught(seed), arm), np.random.default_rng([23, seed])
    size, each = _rows_of, 1.0
    if arm.startswith("tokens"):
        all_kinds = chosen(taught(seed), "start")
        size, each = tokens, sum(map(tokens, all_kinds)) / len(all_kinds)
    feed = batches(rows, rng, size, ROWS * each)
    while seen < SEEN * each:
        batch = next(feed)
        learner.step(batch, seen / (SEEN * each), warmup=40)
        seen += sum(map(size, batch))
    return learner


def earned(rollout: Rollout, overlap: float, *, no_mode: bool = False) -> float:
    """Eq. 3's reward, if need be without the mode, and half of an `overlap`."""
    weights = {**WEIGHTS, "mode_consistency": 0.0} if no_mode else WEIGHTS
    parts = asdict(rollout.rewards)
    return sum(weight * (parts[name] or 0.0) for name, weight in weights.items()) + 0.5 * overlap


def going_on(arm: str, seed: int, decoder: Decoder) -> Learner:
    """The planner after SECONDS of an arm's training."""
    arm, _, rate = arm.partition("@")
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng([29, seed])
    feed = batches(chosen(taught(seed), "start"), rng, _rows_of, ROWS) if arm == "more-sft" else None
    number = 10**6
    # What the first row and the first step load is loaded before the time counts.
    adaptive_row("train", seed, number)
    learner, began = Learner(decoder, RATE), cpu_seconds()
    while (spent := cpu_seconds() - began) < SECONDS:
        # In turn, each has its own rate, which falls in its own half.
        progress, is_in_turn = spent / SECONDS, arm == "rejection-grpo"
        is_rejection = arm == "rejection" or (is_in_turn and progress < 0.5)
        learner.rate = float(rate) if rate else RATES.get("rejection" if is_rejection else arm, RATE)
        progress = 2 * progress % 1 if is_in_turn else progress
        if feed is not None:
            learner.step(next(feed), progress, warmup=10)
            continue
        lessons = []
        for _ in range(GROUPS):
            row = _some(adaptive_row("train", seed, number), rng)
            number += 1
            # Rejection pays for no look at the oracle mode, which it does not need.
            modes: list[Mode] | None = ["program"] * len(row.asked) if is_rejection else _modes(arm, row, rng)
            groups = own.roll_out(decoder, row, SAMPLES, generator, modes=modes)
            made = own.rejection_lesson(row, groups) if is_rejection else _grpo(arm, row, groups, rng)
            lessons += [made] if made is not None else []
        if lessons:
            learner.step(lessons, progress, warmup=10)
    return learner


def _some(row: Row, rng: np.random.Generator) -> Row:
    at = sorted(rng.permutation(len(row.asked))[:QUESTIONS].tolist())
    return replace(row, asked=tuple(row.asked[i] for i in at), best=tuple(row.best[i] for i in at))


def _modes(arm: str, row: Row, rng: np.random.Generator) -> list[Mode] | None:
    """The oracle modes of an arm; None: those of A.3."""
    if arm == "grpo-shuffled-mode":
        modes = own.oracle_modes(row)
        return [modes[at] for at in rng.permutation(len(modes))]
    if arm == "grpo-expected-mode":
        return own.expected_modes(row)
    return None


def _grpo(arm: str, row: Row, groups: Sequence[Sequence[Rollout]], rng: np.random.Generator) -> Lesson | None:
    overlaps = {id(each): each.overlap for group in groups for each in group} if "evidence" in arm else {}
    if arm == "grpo-random-evidence":
        # Each has that of a reply to the same question that is drawn, which may be itself: of the others
        # alone, those with better evidence would on average get less.
        for group in groups:
            replies = [*dict.fromkeys(map(id, group))]
            drawn = [overlaps[each] for each in rng.permutation(replies).tolist()]
            overlaps |= dict(zip(replies, drawn, strict=True))
    no_mode = arm == "grpo-no-mode"
    return own.grpo_lesson(
        row, groups, lambda each: earned(each, overlaps.get(id(each), 0.0), no_mode=no_mode)
    )


LEFT_OUT = tuple(f"{how}without-{kind}" for how in ("", "tokens-") for kind in KINDS)
GOING_ON = (
    "more-sft",
    "rejection",
    "grpo",
    "rejection-grpo",
    "grpo-no-mode",
    "grpo-shuffled-mode",
    "grpo-expected-mode",
    "grpo-evidence",
    "grpo-random-evidence",
)


def goes_on(arm: str) -> bool:
    """Whether an arm goes on from a start."""
    return arm.partition("@")[0] in GOING_ON


def weights(arm: str, seed: int) -> Path:
    """Where a cell's weights are kept."""
    return kept(f"{arm}-{seed}.pt")


def trained(arm: str, seed: int) -> dict[str, Any]:
    """What a cell's training took; its planner is in the cache."""
    path = weights(arm, seed)
    if not path.exists():
        taught(seed)
        start = Decoder.load(weights("start", seed)) if goes_on(arm) else None
        began = cpu_seconds()
        learner = fine_tuned(seed, arm) if start is None else going_on(arm, seed, start)
        spent: dict[str, Any] = {"cpu_s": round(cpu_seconds() - began, 1), "steps": len(learner.losses)}
        spent |= {"questions": learner.questions, "bfloat16": HAS_BFLOAT16}
        spent |= {"weights": DecoderPlanner(learner.decoder).identity()["weights"]}
        path.with_suffix(".json").write_text(json.dumps(spent))
        learner.decoder.save(path)
    return took(arm, seed)


def is_of(cell: Mapping[str, Any], spent: Mapping[str, Any]) -> bool:
    """Whether a cell's figures are those of the planner that this training made."""
    return bool(spent) and cell.get("weights") == spent["weights"]


def took(arm: str, seed: int) -> dict[str, Any]:
    """What the training of the planner in the cache took; empty without one."""
    path = weights(arm, seed)
    return dict(json.loads(path.with_suffix(".json").read_text())) if path.exists() else {}


class Faultless(Scripted):
    """Writes the best program of a row's library, or with `looks` first a direct look, and to refine it the
    best of the others; with `is_sample` the latter at first."""

    name = "faultless"

    def __init__(self, row: Row, channel: Channel, *, looks: bool, is_sample: bool = False) -> None:
        self._is_sample = is_sample
        self._replies: dict[Question, list[str]] = {}
        for asked in row.asked:
            routes = [choice.route for choice in choices(asked, row.library, channel)]
            if looks:
                routes.sort(key=lambda route: route.needs != {NATIVE})
            # Where there is no other way, the same again.
            first, second, *_ = (*routes, *routes)
            self._replies[asked.question] = [each.reply(asked, row.library) for each in (first, second)]

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [
            PlannerReply(self._replies[each.question][self._is_sample or each.kind not in PLAN_KINDS])
            for each in requests
        ]


Planners = Callable[[Row, Channel], tuple[Planner, Planner, Planner | None]]
"""Of a row: the planner, that of the samples it is compared with, and one that never looks directly, if its
routing is compared."""


def of_decoder(decoder: Decoder) -> Planners:
    """A decoder's most likely replies, drawn ones, and the most likely that do not begin with a look."""
    # No other way begins with a word of its name.
    barred = DecoderPlanner(decoder, barred=read_ids(NATIVE)[0])
    # What is drawn for a row does not depend on what was measured before.
    return lambda row, channel: (
        DecoderPlanner(decoder),
        DecoderPlanner(decoder, torch.Generator().manual_seed(0)),
        barred,
    )


def faultless(*, looks: bool) -> Planners:
    """A planner without a fault, and its second program as a sample that knows nothing of the first."""
    return lambda row, channel: (
        Faultless(row, channel, looks=looks),
        Faultless(row, channel, looks=looks, is_sample=True),
        None,
    )


FAULTLESS = {"faultless": faultless(looks=False), "faultless-look": faultless(looks=True)}
ARMS = (*FAULTLESS, "start", *GOING_ON, *LEFT_OUT)


def measured(
    planners: Planners, world: str, seed: int, channel: Channel, *, is_compared: bool
) -> dict[str, dict[str, list[float]]]:
    """The sums over the questions of each story that a seed has in a world, of those about the whole video
    (`gist`) and of the others: how often each way to answer is right, and what the first programs are.
    `is_compared`: with samples as controls and, in the usual channel, direct looks and programs."""
    sums: dict[str, dict[str, list[float]]] = {part: {} for part in PARTS}
    for number in range(STORIES[world]):
        row = adaptive_row(world, seed, number, channel)
        planner, drawing, barred = planners(row, channel)
        results = answer(row, planner, channel, BOTH_STORED)
        controls = [answer(row, drawing, channel)] if is_compared else []
        if is_compared and barred is not None and channel == CHANNELS[USUAL]:
            controls += [look(row), answer(row, barred)]
        for asked, result, *others in zip(row.asked, results, *controls, strict=True):
            first, *second = (executed(each) for each in result.rounds[:2])
            values = _ways(asked, first, second[0] if second else None)
            values |= {
                "n": 1.0,
                "refined": float(first.status != "ok" or first.answer.confidence < BOTH_STORED.tau),
                "failed": float(first.status != "ok"),
                "native": float(result.rounds[0].mode == "native"),
                "frames": float(len({time for call in first.calls for time, *_ in call.frames})),
                "overlap": overlap(asked, first),
            }
            ran = [executed(each.rounds[0]) for each in others]
            if ran:
                values["surer_of_samples"] = float(
                    is_right(max(first, ran[0], key=_sureness), {asked.answer})
                )
            values |= {
                name: float(is_right(each, {asked.answer}))
                for name, each in zip(("direct", "program"), ran[1:], strict=False)
            }
            part = sums[PARTS[asked.kind not in GIST]]
            for name, value in values.items():
                part.setdefault(name, [0.0] * STORIES[world])[number] += round(value, 4)
    return sums


def executed(each: Round) -> Execution:
    """The execution of a round, which a round that was run has."""
    assert each.execution is not None
    return each.execution


def _sureness(execution: Execution) -> float:
    return execution.answer.confidence if execution.status == "ok" else -1.0


def _ways(asked: Asked, first: Execution, second: Execution | None) -> dict[str, float]:
    """Which ways to answer a question are right."""

    def right(execution: Execution) -> float:
        return float(is_right(execution, {asked.answer}))

    last = second if second is not None and _sureness(second) >= 0 else first
    final = last if _sureness(first) < BOTH_STORED.tau else first
    is_unsure = 0 <= _sureness(first) < BOTH_STORED.tau
    return {
        "first": right(first),
        # Of a program in place of the first, whose answer stays where the second has none.
        "second": right(last),
        # The refined answer, where the first was unsure or failed; if it failed too, the first (the rule
        # `last-answered`; the paper's takes the last program, even if it has no answer).
        "final": right(final),
        "first_of_unsure": right(first) if is_unsure else 0.0,
        "final_of_unsure": right(final) if is_unsure else 0.0,
    }


def work(settings: ClaimSettings) -> None:
    torch.set_num_threads(1)
    cells = recorded_rows(settings.output, "cells", design())
    had = {name: {*cell} for name, cell in cells.items()}
    for seed in settings.seeds:
        arms = settings.arms or ARMS
        lacks = {arm for arm in arms if not {*settings.worlds} <= cells.get(f"{arm}/{seed}", {}).keys()}
        needs_start = any(arm == "start" or goes_on(arm) for arm in lacks)
        if needs_start and not is_of(cells.get(f"start/{seed}", {}), took("start", seed)):
            # The arms of a seed go on from one start: with a new one, all are made again.
            recorded = [name.partition("/")[0] for name in cells if name.endswith(f"/{seed}")]
            again = ["start", *filter(goes_on, (*recorded, *arms))]
            arms, lacks = (*again, *arms), lacks | {*again}
            for arm in again:
                cells.pop(f"{arm}/{seed}", None)
        for arm in dict.fromkeys(arms):
            if arm not in lacks:
                continue
            name, planners = f"{arm}/{seed}", FAULTLESS.get(arm)
            cell = cells.get(name, {})
            worlds = [world for world in STORIES if world in {*settings.worlds, *had.get(name, ())}]
            if planners is None:
                spent = trained(arm, seed)
                # The figures of a cell are those of one planner: after another training, all are made again.
                cell = cell if is_of(cell, spent) else spent
                planners = of_decoder(Decoder.load(weights(arm, seed)))
            is_compared = arm in ("start", *FAULTLESS)
            for world in worlds:
                if world in cell:
                    continue
                began = cpu_seconds()
                cell[world] = {
                    which: measured(planners, world, seed, each, is_compared=is_compared)
                    for which, each in CHANNELS.items()
                    if is_compared or which == USUAL
                }
                cell[f"{world}_cpu_s"] = round(cpu_seconds() - began, 1)
            cells[name] = {"cpu_s": 0.0, **cell}
            write_record(settings.output, {**design(), "cells": cells}, indent=0)
            found = cell[settings.worlds[0]][USUAL]
            shown = (f"{key} {mean(found, key):.3f}" for key in SHOWN if key in found["other"])
            print(name, *shown, flush=True)
    untouched = {name: cell for name, cell in cells.items() if int(name.rpartition("/")[2]) >= UNTOUCHED}
    record = {
        **design(),
        "shares": {world: shares(cells, world, USUAL, SHOWN) for world in STORIES},
        "findings": {world: findings(cells, world, USUAL) for world in STORIES},
        "untouched": findings(untouched, "test", USUAL),
        "cells": cells,
    }
    write_record(settings.output, record, indent=0)
    print_tables("perf/simlib_claims.json", record)


if __name__ == "__main__":
    run_command(ClaimSettings, work, "stopped; the same command goes on")
