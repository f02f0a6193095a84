"""A teacher with faults, and what its programs teach: rows of the paper's four kinds, R1 to R4 (section 3.3),
made by the real executor and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import ReasoningSettings
from videopro.question import Question
from videopro.question.prompts import NATIVE_PROGRAM
from videopro.simlib.asking import Scripted, answer
from videopro.simlib.decoder import reply_ids, split_prompt
from videopro.simlib.library import MEASURED, Channel
from videopro.simlib.routes import Route, choices
from videopro.simlib.rows import TRAINED, TRAINED_KINDS, Row, draw_library, dropped, row_of
from videopro.simlib.story import WORLDS, Asked, make_story
from videopro.simlib.training import Lesson, plan_prompt
from videopro.traces import Execution, Result
from videopro.train.rewards import is_right

NATIVE = "query_native"
BEST, FAULTY = 0.6, 0.25
"""How often the teacher's first program takes the best route, else any; and how often it calls what the
library lacks."""
BOTH_STORED = ReasoningSettings(refine_below=1.0)
"""Two programs for each question; the second counts where the first failed or is unsure."""


@dataclass(frozen=True)
class Taught:
    """A row of training."""

    kind: str
    """R1, a sure and right look at the whole; R2, otherwise a right program; R3, a fix of one that failed;
    R4, a right program after a wrong or unsure answer."""
    asked: Asked
    prompt: str
    route: Route


def adaptive_row(world: str, seed: int, number: int, channel: Channel = MEASURED) -> Row:
    """A row whose library lacks operations, but not the look at the whole video, under their own names."""
    rng = np.random.default_rng([17, WORLDS.index(world), seed, number])
    keys = [key for key in dropped(rng, TRAINED) if key != NATIVE]
    story = make_story(world, seed * 10**7 + number)
    return row_of(story, draw_library(rng, [*keys, NATIVE]), channel, TRAINED_KINDS)


class Given(Scripted):
    """Gives replies that are written already: the first to the first request, and so on."""

    name = "simlib-given"

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [PlannerReply(next(self._replies)) for _ in requests]


def look(row: Row) -> list[Result]:
    """A direct look at the whole video for each question of a row."""
    reply = f"<planning>\nLook.\n</planning>\n<code>\n{NATIVE_PROGRAM}\n</code>"
    return answer(row, Given([reply] * len(row.asked)))


class _Teacher(Scripted):
    """Takes a route that is drawn, now and then with a fault, and then the best of the others."""

    name = "simlib-teacher"

    def __init__(self, row: Row, rng: np.random.Generator) -> None:
        self._row, self._rng = row, rng
        self._asked = {asked.question: asked for asked in row.asked}
        self.written: dict[Question, list[tuple[str, Route]]] = {}
        """The prompts of each question, and the routes taken."""
        self._tried: set[tuple[Question, str]] = set()

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [PlannerReply(self._reply(request)) for request in requests]

    def _reply(self, request: PlanRequest) -> str:
        asked, before = self._asked[request.question], self.written.setdefault(request.question, [])
        names, rng = self._row.library.names, self._rng
        routes = [choice.route for choice in choices(asked, self._row.library, MEASURED)]
        others = [each for each in routes if (request.question, each.body) not in self._tried]
        # Where there is no other way, the best one.
        steps = [each for each in others if each.needs != {NATIVE}] or routes[:1]
        is_any = not before and rng.random() >= BEST
        route = steps[int(rng.integers(len(steps)))] if is_any else steps[0]
        before.append((request.prompt, route))
        reply = route.reply(asked, self._row.library)
        if len(before) == 1 and rng.random() < FAULTY:
            absent = [key for key in TRAINED if key not in names]
            called = names[sorted(route.needs)[int(rng.integers(len(route.needs)))]]
            return reply.replace(called, absent[int(rng.integers(len(absent)))])
        self._tried.add((request.question, route.body))
        return reply


def teach(row: Row, rng: np.random.Generator) -> list[Taught]:
    """What the teacher's attempts at the questions of a row teach, at most one row for each."""
    taught, rest = [], []
    for at, (asked, result) in enumerate(zip(row.asked, look(row), strict=True)):
        if result.rounds[0].execution is not None and is_sure(asked, result.rounds[0].execution):
            native = next(c.route for c in choices(asked, row.library, MEASURED) if c.route.needs == {NATIVE})
            taught.append(Taught("R1", asked, plan_prompt(row, asked), native))
        else:
            rest.append(at)
    left = replace(row, asked=tuple(row.asked[at] for at in rest), best=tuple(row.best[at] for at in rest))
    teacher = _Teacher(left, rng)
    for asked, result in zip(left.asked, answer(left, teacher, settings=BOTH_STORED), strict=True):
        runs = [each.execution for each in result.rounds[:2] if each.execution is not None]
        (first, route), *second = teacher.written[asked.question]
        if is_sure(asked, runs[0]):
            taught.append(Taught("R2", asked, first, route))
        elif second and len(runs) == 2 and is_right(runs[1], {asked.answer}):
            has_failed = runs[0].status == "failed"
            # The same program again would teach nothing.
            if has_failed or second[0][1] != route:
                taught.append(Taught("R3" if has_failed else "R4", asked, *second[0]))
    return taught


def lesson(row: Row, taught: Sequence[Taught]) -> Lesson:
    """Rows about one library as a lesson."""
    read = [split_prompt(each.prompt) for each in taught]
    replies = [reply_ids(each.route.parts(each.asked, row.library)) for each in taught]
    return Lesson(read[0][0], [question for _, question in read], replies)


def is_sure(asked: Asked, execution: Execution) -> bool:
    """Whether the answer is right, and sure."""
    return is_right(execution, {asked.answer}) and execution.answer.confidence >= BOTH_STORED.tau
