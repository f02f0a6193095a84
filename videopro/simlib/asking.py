"""Asks rows: a planner's programs run in the real executor, against the library and the script of each
row."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from videopro.backbones.wrappers import ThreadMeter
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.errors import ConfigError, RunError
from videopro.methods import make_trace
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.methods.program import Reasoner, ReasoningSettings
from videopro.modules.calls import Module, module_of
from videopro.runs import AskedRun, asked_identity
from videopro.simlib.library import MEASURED, TYPES, Channel, Library, Offered, StoryContext, roles
from videopro.simlib.operations import GENERAL, OPERATIONS
from videopro.simlib.routes import choices
from videopro.simlib.rows import Row, draw_rows, row_of
from videopro.simlib.story import Asked, make_story
from videopro.traces import Result, VideoRef

PROTOCOL = Protocol(ROBUST, name="simlib")
_CALLED = re.compile(r"(\w+)\(")
ONE_PROGRAM = ReasoningSettings(max_rounds=0)
"""One program a question, without refinement."""


class Scripted(Planner):
    """A planner without a model, which is prompted as one that was trained on the reference."""

    asks_model = False
    is_fine_tuned = True
    reference = "compact"

    def identity(self) -> dict[str, object]:
        return {"planner": self.name}


class Oracle(Scripted):
    """Writes the best program that the library of a row allows: the ceiling."""

    name = "simlib-oracle"

    def __init__(self, row: Row) -> None:
        pairs = zip(row.asked, row.best, strict=True)
        self._replies = {asked.question: choice.route.reply(asked, row.library) for asked, choice in pairs}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [PlannerReply(self._replies[request.question]) for request in requests]


def answer(
    row: Row,
    planner: Planner,
    channel: Channel = MEASURED,
    settings: ReasoningSettings = ONE_PROGRAM,
) -> list[Result]:
    """The result of each question of a row. Raises as `Reasoner.reason`."""
    context = StoryContext(row.story, row.library, channel)
    reasoner = Reasoner(planner, settings, context, thread_meter=ThreadMeter())
    return reasoner.reason([asked.question for asked in row.asked])


def is_right(row: Row, results: Sequence[Result]) -> list[bool]:
    """Whether the final answer of each question of a row is right."""
    return [
        result.final is not None and result.final.letter == asked.answer
        for asked, result in zip(row.asked, results, strict=True)
    ]


def measure(planner: Planner, test: str, world: str, stories: int, *, seed: int = 0) -> dict[str, Any]:
    """A planner on the rows that a `seed` has of a test. Of all questions, and of those whose special module
    the library lacks (`missing`): their number; `right`, a share, and `oracle`, the same of the oracle;
    `same`, the share of programs that are the oracle's; `called`, of those that called all its modules;
    `absent`, of those that call what the library lacks.
    `kinds`: `same` of each kind of question."""
    asked: list[tuple[Asked, bool, dict[str, bool]]] = []
    ceiling = _ceiling(test, world, stories, seed)
    for row in draw_rows(test, world, stories, seed=seed):
        found = answer(row, planner)
        for each, result, best, right in zip(row.asked, found, row.best, is_right(row, found), strict=True):
            program = (result.rounds[0].program if result.rounds else None) or ""
            names = row.library.names
            own = {"execute_command", *dir(builtins), *names.values()}
            scores = {
                "right": right,
                "oracle": ceiling[len(asked)],
                "same": f"<code>\n{program}\n</code>" in best.route.reply(each, row.library),
                "called": {names[key] for key in best.route.needs} <= {call.fn for call in _calls(result)},
                "absent": bool({*_CALLED.findall(program)} - own),
            }
            asked.append((each, f"get_{each.kind}" not in names, scores))
    kinds: dict[str, list[bool]] = {}
    for each, _, scores in asked:
        kinds.setdefault(each.kind, []).append(scores["same"])
    return {
        **_shares([scores for _, _, scores in asked]),
        "missing": _shares([scores for _, is_missing, scores in asked if is_missing]),
        "kinds": {kind: round(fmean(values), 4) for kind, values in sorted(kinds.items())},
    }


def _shares(scores: Sequence[Mapping[str, bool]]) -> dict[str, float]:
    shares = {name: round(fmean(each[name] for each in scores), 4) for name in (scores or [{}])[0]}
    return {"questions": len(scores), **shares}


@cache
def _ceiling(test: str, world: str, stories: int, seed: int) -> list[bool]:
    """Which questions of a test the oracle answers right."""
    rows = draw_rows(test, world, stories, seed=seed)
    return [each for row in rows for each in is_right(row, answer(row, Oracle(row)))]


def record(
    rows: Sequence[tuple[Row, Sequence[Result]]],
    planner: Planner,
    folder: Path,
    settings: ReasoningSettings = ONE_PROGRAM,
) -> None:
    """Write results as a run's folder, for `videopro view` and `videopro report`. Raises RunError, also for a
    question of a story that the folder has already."""
    run = AskedRun(folder)
    method = {"name": "videopro", **asdict(settings), **planner.identity()}
    identity = {**asked_identity(PROTOCOL, method=method, seed=0), "model": {"model": "script"}}
    key = run.open({"method": "videopro", "model": "script"}, identity)
    for row, results in rows:
        video = Path(f"{row.story.name}.script")
        for asked, result in zip(row.asked, results, strict=True):
            item = Item(
                *(f"{row.story.name}/{asked.kind}", video, row.story.name, asked.question, asked.answer),
                groups={"family": asked.kind},
                evidence=asked.evidence,
            )
            ref = VideoRef(str(video), row.story.name, row.story.name, row.story.script.duration)
            if not run.add(make_trace(item, result, ref, run_key=key, protocol=PROTOCOL)):
                raise RunError(f"{folder}: already has {item.id}; give each test a folder of its own")
    run.close()


def try_modules(
    planner: Planner, modules: Mapping[str, Callable[..., Any]], *, stories: int = 20
) -> dict[str, dict[str, float]]:
    """Try descriptions of your own modules on a planner, before any video is indexed.

    `modules`: your functions, as `@module` takes them, by the operation that each is like (a key of
    OPERATIONS). In stories of the val world a planner reads the general modules and these, which the script
    answers in place of yours. Returns for each the number of `questions` that it is the best way to answer
    (of equally good ways the first), the share of programs that `called` it and gave an answer, the share
    that was `right`, and that which the `oracle` is expected to have. Raises ConfigError for an unknown
    operation, one that is the best way of no question, other arguments than it has, or a name that two
    modules have."""
    own = {key: _standing_for(key, function) for key, function in modules.items()}
    keys = dict.fromkeys((*GENERAL, *sorted(own)))
    library = Library(tuple(Offered(key, own[key].name if key in own else key) for key in keys), own)
    names = [offer.name for offer in library.offers]
    if twice := [name for name in library.names.values() if names.count(name) > 1]:
        raise ConfigError(f"two modules are named {twice[0]}; rename yours")
    counts = {}
    for key, shown in own.items():
        right: list[bool] = []
        expected: list[float] = []
        called = 0
        for number in range(stories):
            story = make_story("val", number)
            best = {each.kind: choices(each, library, MEASURED)[0].route for each in story.questions}
            row = row_of(story, library, MEASURED, [kind for kind in best if key in best[kind].needs])
            results = answer(row, planner)
            right += is_right(row, results)
            answered = [result for result in results if result.final is not None and result.final.letter]
            called += sum(shown.name in {call.fn for call in _calls(result)} for result in answered)
            expected += [choice.accuracy for choice in row.best]
        if not right:
            raise ConfigError(f"{key} is the best way of no question in {stories} stories; choose another")
        shares = {"called": called / len(right), "right": fmean(right), "oracle": fmean(expected)}
        counts[key] = {"questions": len(right), **{name: round(of, 4) for name, of in shares.items()}}
    return counts


def _standing_for(key: str, function: Callable[..., Any]) -> Module:
    if key not in OPERATIONS:
        raise ConfigError(f"unknown operation {key!r}; choose from {', '.join(OPERATIONS)}")
    made, wanted = module_of(function, family=OPERATIONS[key].family), OPERATIONS[key].arguments
    # What planners are not shown, no call has.
    seen = tuple(p for p in made.parameters if p.kind.is_documented and not p.is_var_keyword)
    if [each.kind for each in seen] != [TYPES[role].kind for role in wanted]:
        shown = ", ".join(f"{role}: {roles.__annotations__[role]}" for role in wanted)
        raise ConfigError(f"{made.name}() stands for {key}(), so it takes, in this order: call, {shown}")
    return replace(made, parameters=seen)


def _calls(result: Result) -> list[Any]:
    return [call for each in result.rounds if each.execution is not None for call in each.execution.calls]


def shortcuts(world: str, stories: int) -> dict[str, dict[str, float]]:
    """The shares that are right without locating anything, by kind: the first option; the option that is said
    most; those that are shown the longest and the shortest time; that which is shown in most of 16 frames."""
    scores: dict[str, dict[str, list[float]]] = {}
    for number in range(stories):
        story = make_story(world, number)
        script = story.script
        said = " ".join(line.text for line in script.lines)
        shown = [_shown(story.scene_at(time)) for time in np.linspace(0, script.duration, 33)[1::2]]
        for asked in story.questions:
            options = asked.question.choices
            seconds_shown = [
                sum(s.end - s.start for s in script.scenes if option in _shown(s)) for option in options
            ]
            counts = {
                "first option": [1.0, 0.0, 0.0, 0.0],
                "said most": [float(said.count(option)) for option in options],
                "shown longest": seconds_shown,
                "shown shortest": [-seconds for seconds in seconds_shown],
                "in 16 frames": [float(sum(option in each for each in shown)) for option in options],
            }
            gold = ord(asked.answer) - ord("A")
            for name, values in counts.items():
                best = [value == max(values) for value in values]
                scores.setdefault(asked.kind, {}).setdefault(name, []).append(best[gold] / sum(best))
    return {
        kind: {name: round(sum(values) / len(values), 3) for name, values in found.items()}
        for kind, found in scores.items()
    }


def _shown(scene: Any) -> set[str]:
    look = () if scene.actor is None else (scene.actor.color, scene.actor.shape, scene.actor.move)
    return {scene.place, *look, *(() if scene.sign is None else (scene.sign.word,))}
