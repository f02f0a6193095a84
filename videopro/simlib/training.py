"""Trains a decoder to write the oracle's programs, with libraries that an arm draws."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from torch.nn import functional as F

from videopro.modules import reference_text
from videopro.question import prompts
from videopro.simlib.decoder import PAD, Decoder, padded_groups, reply_ids, split_prompt
from videopro.simlib.library import MEASURED, Library
from videopro.simlib.rows import TRAINED, TRAINED_KINDS, Row, draw_library, dropped, row_of
from videopro.simlib.story import Asked, make_story

ROWS = 4
"""Rows of a step: each is a library, with the questions of a story."""
RATE = 3e-3
"""The highest learning rate of AdamW."""
_SAVED_SECONDS = 120.0

HAS_BFLOAT16 = any(torch.cpu.get_capabilities().get(each) for each in ("avx512_bf16", "amx_bf16", "bf16"))
"""Whether training is in bfloat16; else it is in float32."""

Draw = Callable[[np.random.Generator, float], Library]


def _fixed(rng: np.random.Generator, progress: float) -> Library:
    return draw_library(rng, TRAINED)


def _dropped(rng: np.random.Generator, progress: float) -> Library:
    return draw_library(rng, dropped(rng, TRAINED))


def _renamed(rng: np.random.Generator, progress: float) -> Library:
    return draw_library(rng, dropped(rng, TRAINED), renamed=1.0)


def _curriculum(rng: np.random.Generator, progress: float) -> Library:
    # From the fixed library to drawn names in the first half.
    return draw_library(rng, dropped(rng, TRAINED), renamed=min(1.0, 2 * progress))


ARMS: Mapping[str, Draw] = {
    "fixed": _fixed,
    "dropped": _dropped,
    "renamed": _renamed,
    "curriculum": _curriculum,
}
"""How an arm draws a library, at a progress from 0 to 1. `renamed` and `curriculum` drop too."""


@dataclass(frozen=True)
class Trained:
    """A decoder, and what its training took."""

    decoder: Decoder
    questions: int
    cpu_seconds: float
    losses: tuple[float, ...]
    """The mean loss of each hundredth of the training, a token of replies."""


def training_row(arm: str, seed: int, number: int, progress: float) -> Row:
    """The row of a number, whose story no other row of its seed has."""
    rng = np.random.default_rng([13, seed, number])
    story = make_story("train", seed * 10**7 + number)
    return row_of(story, ARMS[arm](rng, progress), MEASURED, TRAINED_KINDS)


@dataclass(frozen=True)
class Lesson:
    """What a decoder learns from a library: prompts that show it, and replies."""

    reference: list[list[int]]
    """The ids of each entry of the API reference."""
    questions: list[list[int]]
    replies: list[list[int]]
    weights: list[float] | None = None
    """How much each reply counts; None: 1. A negative one is to become less likely."""


def plan_prompt(row: Row, asked: Asked) -> str:
    """The prompt for a question of a row, of a planner that may look once."""
    shown = reference_text("compact", tuple(row.library.modules().values()))
    return prompts.plan(asked.question, adaptive=True, reference=shown, examples=False)


def encoded(row: Row) -> Lesson:
    """A row with the oracle's replies."""
    read = [split_prompt(plan_prompt(row, asked)) for asked in row.asked]
    replies = [
        reply_ids(choice.route.parts(asked, row.library))
        for asked, choice in zip(row.asked, row.best, strict=True)
    ]
    return Lesson(read[0][0], [question for _, question in read], replies)


def _loss(decoder: Decoder, lessons: Sequence[Lesson]) -> torch.Tensor:
    """The mean over all tokens of replies of -log p, each with the weight of its reply."""
    blocks, targets, weights = [], [], []
    for lesson in lessons:
        pairs = [*zip(lesson.questions, lesson.replies, strict=True)]
        blocks.append([[*question, *reply[:-1]] for question, reply in pairs])
        targets.append([[*[PAD] * (len(question) - 1), *reply] for question, reply in pairs])
        for weight, reply in zip(lesson.weights or [1.0] * len(pairs), lesson.replies, strict=True):
            weights += [weight] * len(reply)
    wanted = padded_groups(targets)
    counted = wanted != PAD
    # Without instructions for it, bfloat16 takes many times as long as float32.
    with torch.autocast("cpu", torch.bfloat16, enabled=HAS_BFLOAT16):
        references = padded_groups([each.reference for each in lessons])
        predicted = decoder(references, padded_groups(blocks), counted)
    loss = F.nll_loss(predicted, wanted[counted], reduction="none")
    return (loss * torch.tensor(weights)).mean()


class Learner:
    """A decoder with its optimizer: a step of AdamW for each batch of lessons."""

    def __init__(self, decoder: Decoder, rate: float) -> None:
        self.decoder, self.rate = decoder, rate
        self.optimizer = torch.optim.AdamW(
            decoder.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.losses: list[float] = []
        self.questions = 0

    def step(self, lessons: Sequence[Lesson], progress: float, *, warmup: int = 200) -> None:
        """A step at a progress from 0 to 1: the rate rises over `warmup` steps, and falls as a cosine."""
        for group in self.optimizer.param_groups:
            rises = (len(self.losses) + 1) / warmup
            group["lr"] = self.rate * min(rises, 0.5 + 0.5 * math.cos(math.pi * progress))
        loss = _loss(self.decoder, lessons)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        self.optimizer.step()
        self.losses.append(loss.item())
        self.questions += sum(len(lesson.questions) for lesson in lessons)


def train(arm: str, seed: int, size: str, steps: int, *, checkpoint: Path | None = None) -> Trained:
    """Train an arm of ARMS on steps of ROWS rows. With a `checkpoint`, which is written every two minutes,
    the same call resumes."""
    torch.manual_seed(seed)
    learner, spent = Learner(Decoder(size), RATE), 0.0
    if checkpoint is not None and checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        learner.decoder.load_state_dict(stored["decoder"])
        learner.optimizer.load_state_dict(stored["optimizer"])
        learner.losses, learner.questions, spent = stored["losses"], stored["questions"], stored["spent"]
    began, saved = time.process_time() - spent, time.monotonic()
    for step in range(len(learner.losses), steps):
        progress = step / steps
        rows = [training_row(arm, seed, step * ROWS + number, progress) for number in range(ROWS)]
        learner.step([encoded(row) for row in rows if row.asked], progress)
        if checkpoint is not None and time.monotonic() - saved > _SAVED_SECONDS:
            spent, saved = time.process_time() - began, time.monotonic()
            state = {"decoder": learner.decoder.state_dict(), "optimizer": learner.optimizer.state_dict()}
            counts = {"losses": learner.losses, "questions": learner.questions, "spent": spent}
            torch.save({**state, **counts}, checkpoint)
    part = max(1, steps // 100)
    means = [fmean(learner.losses[at : at + part]) for at in range(0, steps - part + 1, part)]
    losses = tuple(round(mean, 4) for mean in means)
    return Trained(learner.decoder.eval(), learner.questions, time.process_time() - began, losses)
