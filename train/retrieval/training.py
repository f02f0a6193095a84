"""Code shared by all retriever training: the recipe, the contrastive loss, and the loop with its log and last
state on disk."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import log_softmax

from videopro.cli import Counter
from videopro.errors import RunError
from videopro.storage import JsonLinesLog, non_finite

LOG_EVERY, SAVE_EVERY = 25, 150


@dataclass(frozen=True)
class RetrieverRecipe:
    steps: int = 900
    batch: int = 64
    lr: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.05
    seed: int = 0

    def rate(self, step: int) -> float:
        """The learning rate at a step: linear warm-up, then a cosine decay to a fiftieth."""
        rise = min(1.0, (step + 1) / self.warmup)
        done = min(1.0, step / self.steps)
        return self.lr * rise * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def contrastive_loss(scores: torch.Tensor, fit: torch.Tensor) -> torch.Tensor:
    """Cross-entropy between the fits and the softmax over the batch, from texts to clips and back.

    `scores`: (n texts, n clips) similarities, scaled. `fit`: how well each clip fits each text, not negative;
    each row and column has a positive. With the identity, it is the symmetric loss of CLIP.
    """
    return (_cross_entropy(scores, fit) + _cross_entropy(scores.T, fit.T)) / 2


def _cross_entropy(scores: torch.Tensor, fit: torch.Tensor) -> torch.Tensor:
    """The mean over rows."""
    return -(fit / fit.sum(1, keepdim=True) * log_softmax(scores, dim=1)).sum(1).mean()


def train(
    model: torch.nn.Module,
    recipe: RetrieverRecipe,
    output: Path,
    loss_at: Callable[[int], torch.Tensor],
    measure: Callable[[], dict[str, float]],
    share: Callable[[str], float] = lambda name: 1.0,
) -> float:
    """Train the parameters of `model` that require a gradient; returns the seconds spent, resumed runs
    included.

    `loss_at(step)` is the loss of a step's batch, `measure()` the figures on held-out data, logged at every
    save. `share(name)` is the share of the learning rate that a parameter has. Resumes from the last state in
    `output`. Raises RunError for weights that are not finite."""
    groups: dict[tuple[bool, float], list[torch.nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            groups.setdefault((weight.ndim < 2, share(name)), []).append(weight)
    optimizer = torch.optim.AdamW(
        [
            # Norms, biases and the temperature have their own scale, which decay would pull to 0.
            {"params": weights, "weight_decay": 0.0 if single else recipe.weight_decay, "share": part}
            for (single, part), weights in sorted(groups.items(), key=lambda item: item[0])
        ],
        lr=recipe.lr,
        # On toy scenes, 40 steps with 0.95 taught more than 120 with 0.98; 50 without warm-up taught nothing.
        betas=(0.9, 0.95),
        fused=True,
    )
    return take_steps(
        model, optimizer, recipe.steps, recipe.rate, output, lambda step: [loss_at(step)], measure
    )


def take_steps(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    rate: Callable[[int], float],
    output: Path,
    losses_at: Callable[[int], Iterable[torch.Tensor]],
    measure: Callable[[], dict[str, float]],
) -> float:
    """The loop of `train`, with an optimizer whose groups have a `share` of the learning rate `rate(step)`.
    `losses_at(step)` gives parts of the step's loss one after another, so that the graph of only one is in
    memory."""
    start, spent = resume(output, model, optimizer)
    begun, losses = time.time() - spent, []
    model.train()
    with Counter("training", steps) as counter:
        counter.start(start)
        for done in range(start + 1, steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = rate(done - 1) * group["share"]
            losses.append(0.0)
            for loss in losses_at(done - 1):
                loss.backward()
                losses[-1] += float(loss.detach())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if done % LOG_EVERY == 0:
                mean = round(float(np.mean(losses[-LOG_EVERY:])), 4)
                append_log(output, {"step": done, "loss": mean, "seconds": round(time.time() - begun)})
            if done % SAVE_EVERY == 0 or done == steps:
                append_log(output, {"step": done, "held_out": measure()})
                save_state(output, model, optimizer, done, time.time() - begun)
            counter.advance()
    return time.time() - begun


def append_log(folder: Path, record: dict[str, object]) -> None:
    """Append a line to `log.jsonl` and print it."""
    print(json.dumps(record), flush=True)
    with closing(JsonLinesLog(folder / "log.jsonl")) as log:
        log.append(record)


def save_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float
) -> None:
    """Write `state.pt` atomically. Raises RunError for weights that are NaN or infinite."""
    damaged = non_finite(model.named_parameters())
    if damaged is not None:
        raise RunError(
            f"step {step}: weight {damaged} is NaN or infinite; nothing was saved. Lower the learning rate"
        )
    part = folder / "state.part"
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "seconds": seconds,
    }
    # Renamed once it is complete: a kill while it is written leaves the last state.
    torch.save(state, part)
    part.replace(folder / "state.pt")


def steps_done(folder: Path) -> int:
    """The steps of the last state in a folder; 0 without one."""
    path = folder / "state.pt"
    return int(torch.load(path, weights_only=True, mmap=True)["step"]) if path.exists() else 0


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Load `state.pt` if there is one. Returns the steps done and the seconds spent so far."""
    if not (folder / "state.pt").exists():
        return 0, 0.0
    state = torch.load(folder / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]), float(state["seconds"])
