"""Trains a decoder to write the oracle's programs, with libraries that an arm draws."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from videopro.modules import reference_text
from videopro.question import prompts
from videopro.simlib.decoder import PAD, Decoder, padded_groups, reply_ids, split_prompt
from videopro.simlib.library import MEASURED, Library
from videopro.simlib.rows import TRAINED, TRAINED_KINDS, Row, draw_library, dropped, row_of
from videopro.simlib.story import make_story

ROWS = 4
"""Rows of a step: each is a library, with the questions of a story."""
_SAVED_SECONDS = 120.0

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


def encoded(row: Row) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """The ids of the entries of a row's API reference, of its questions, and of their replies."""
    shown = reference_text("compact", tuple(row.library.modules().values()))
    # The instructions before the reference say nothing: it is the prompt of a planner that may look once.
    read = [
        split_prompt(prompts.plan(each.question, adaptive=True, reference=shown, examples=False))
        for each in row.asked
    ]
    replies = [
        reply_ids(choice.route.parts(asked, row.library))
        for asked, choice in zip(row.asked, row.best, strict=True)
    ]
    return read[0][0], [question for _, question in read], replies


def _batch(rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """References (rows, entries, tokens), blocks (rows, questions, tokens), and the token to predict at each
    place of a block, PAD where none counts."""
    references, blocks, targets = [], [], []
    for row in rows:
        reference, questions, replies = encoded(row)
        references.append(reference)
        pairs = [*zip(questions, replies, strict=True)]
        blocks.append([[*question, *reply[:-1]] for question, reply in pairs])
        targets.append([[*[PAD] * (len(question) - 1), *reply] for question, reply in pairs])
    return padded_groups(references), padded_groups(blocks), padded_groups(targets)


def train(
    arm: str, seed: int, size: str, steps: int, *, rate: float = 3e-3, checkpoint: Path | None = None
) -> Trained:
    """Train an arm of ARMS on steps of ROWS rows. With a `checkpoint`, which is written every two minutes,
    the same call resumes."""
    torch.manual_seed(seed)
    decoder = Decoder(size)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    losses: list[float] = []
    questions, spent = 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        decoder.load_state_dict(stored["decoder"])
        optimizer.load_state_dict(stored["optimizer"])
        losses, questions, spent = stored["losses"], stored["questions"], stored["spent"]
    began, saved = time.process_time() - spent, time.monotonic()
    for step in range(len(losses), steps):
        progress = step / steps
        rows = [training_row(arm, seed, step * ROWS + number, progress) for number in range(ROWS)]
        reference, blocks, targets = _batch([row for row in rows if row.asked])
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / 200, 0.5 + 0.5 * math.cos(math.pi * progress))
        counted = targets != PAD
        with torch.autocast("cpu", torch.bfloat16):
            predicted = decoder(reference, blocks, counted)
        loss = F.nll_loss(predicted, targets[counted])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        questions += sum(len(row.asked) for row in rows)
        if checkpoint is not None and time.monotonic() - saved > _SAVED_SECONDS:
            spent, saved = time.process_time() - began, time.monotonic()
            state = {"decoder": decoder.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "losses": losses, "questions": questions, "spent": spent}, checkpoint)
    part = max(1, steps // 100)
    means = tuple(round(sum(losses[at : at + part]) / part, 4) for at in range(0, steps - part + 1, part))
    return Trained(decoder.eval(), questions, time.process_time() - began, means)
