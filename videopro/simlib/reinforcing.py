"""Learning from a planner's own replies, on one step of its own policy at a time: GRPO, and rejection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from videopro.benchmarks import interval_iou
from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import round_from_reply
from videopro.simlib.asking import answer
from videopro.simlib.decoder import END, LONGEST, Decoder, split_prompt, text_of
from videopro.simlib.library import MEASURED
from videopro.simlib.routes import choices
from videopro.simlib.rows import Row
from videopro.simlib.story import Asked
from videopro.simlib.teaching import NATIVE, Given, is_sure, look
from videopro.simlib.training import Lesson, plan_prompt
from videopro.traces import Execution
from videopro.traces.scoring import Mode
from videopro.train.rewards import Rewards, is_right, score


@dataclass(frozen=True)
class Rollout:
    """A reply to a question, and what came of it."""

    asked: Asked
    ids: list[int]
    execution: Execution
    rewards: Rewards
    """Those of Eq. 3."""
    overlap: float
    """IoU in time of what its calls looked at with the question's evidence."""


Reward = Callable[[Rollout], float]


def roll_out(
    decoder: Decoder,
    row: Row,
    samples: int,
    generator: torch.Generator,
    *,
    modes: Sequence[Mode] | None = None,
) -> list[list[Rollout]]:
    """Draw and run `samples` replies to each question of a row. `modes`: the oracle mode of each; None:
    that of A.3."""
    modes = oracle_modes(row) if modes is None else modes
    prompts = [plan_prompt(row, asked) for asked in row.asked]
    read = [split_prompt(prompt) for prompt in prompts]
    blocks = [question for _, question in read for _ in range(samples)]
    written = decoder.write(read[0][0], blocks, generator)
    drawn = [(at // samples, tuple(ids)) for at, ids in enumerate(written)]
    # A reply that is drawn twice gets the same again.
    distinct = [*dict.fromkeys(drawn)]
    texts = [text_of(ids) for _, ids in distinct]
    repeated = replace(row, asked=tuple(row.asked[at] for at, _ in distinct))
    names, made = row.library.names.values(), {}
    for (at, ids), text, result in zip(distinct, texts, answer(repeated, Given(texts)), strict=True):
        execution, asked = result.rounds[0].execution, row.asked[at]
        assert execution is not None
        request = PlanRequest("plan", prompts[at], asked.question)
        _, program = round_from_reply(request, PlannerReply(text))
        rewards = score("plan", {asked.answer}, modes[at], (program, execution), modules=names)
        ended = [*ids] if len(ids) == LONGEST else [*ids, END]
        made[at, ids] = Rollout(asked, ended, execution, rewards, overlap(asked, execution))
    rollouts = [made[each] for each in drawn]
    return [rollouts[at : at + samples] for at in range(0, len(rollouts), samples)]


def oracle_modes(row: Row) -> list[Mode]:
    """The oracle mode of each question of a row: the look, where it is right and sure (A.3)."""
    looks = [result.rounds[0].execution for result in look(row)]
    return [
        "native" if seen is not None and is_sure(asked, seen) else "program"
        for asked, seen in zip(row.asked, looks, strict=True)
    ]


def expected_modes(row: Row) -> list[Mode]:
    """The mode that is better over stories: the look, where no program is expected to be right more often.
    Unlike that of A.3, no lucky letter decides it."""
    modes: list[Mode] = []
    for asked in row.asked:
        ways = choices(asked, row.library, MEASURED)
        looked = next((way.accuracy for way in ways if way.route.needs == {NATIVE}), 0.0)
        modes.append("native" if looked >= ways[0].accuracy else "program")
    return modes


def overlap(asked: Asked, execution: Execution) -> float:
    """IoU in time of what the calls of a program looked at, from the first frame of each to its last, with
    the question's evidence."""
    spans = [(call.frames[0][0], call.frames[-1][0]) for call in execution.calls if call.frames]
    return interval_iou(spans, asked.evidence)


def grpo_lesson(row: Row, groups: Sequence[Sequence[Rollout]], reward: Reward) -> Lesson | None:
    """Replies with their advantages in their groups (the standard deviation is that of the group), those of a
    reply that is drawn twice added (the loss is a mean over the tokens of different replies); None if no
    group has two rewards."""
    lesson = Lesson(split_prompt(plan_prompt(row, row.asked[0]))[0], [], [], [])
    assert lesson.weights is not None
    for group in groups:
        earned = np.array([reward(each) for each in group])
        if np.ptp(earned) > 0:
            advantages: dict[tuple[int, ...], float] = {}
            for each, advantage in zip(group, (earned - earned.mean()) / (earned.std() + 1e-4), strict=True):
                advantages[tuple(each.ids)] = advantages.get(tuple(each.ids), 0.0) + float(advantage)
            lesson.questions.extend([split_prompt(plan_prompt(row, group[0].asked))[1]] * len(advantages))
            lesson.replies.extend([*ids] for ids in advantages)
            lesson.weights.extend(advantages.values())
    return lesson if lesson.questions else None


def rejection_lesson(row: Row, groups: Sequence[Sequence[Rollout]]) -> Lesson | None:
    """One right reply to each question, where there is any: the first that was drawn."""
    lesson = Lesson(split_prompt(plan_prompt(row, row.asked[0]))[0], [], [])
    for group in groups:
        right = next((each for each in group if is_right(each.execution, {each.asked.answer})), None)
        if right is not None:
            lesson.questions.append(split_prompt(plan_prompt(row, right.asked))[1])
            lesson.replies.append(right.ids)
    return lesson if lesson.questions else None
