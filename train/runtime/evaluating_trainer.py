"""Trainers whose evaluations also run programs on held-out questions, change nothing in the training that
goes on, and report a loss that does not depend on the batch size."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import Trainer

ProgramMetrics = Callable[[Trainer], dict[str, float]]


class EvaluatingTrainer(Trainer):
    """A mixin: list it before TRL's trainer class in the bases.

    `programs` measures planning on held-out questions. Its metrics are added to those of every evaluation, so
    that they can be logged, plotted and used as `metric_for_best_model`. A subclass passes the loss of each
    batch to `count_eval_loss`.
    """

    def __init__(self, *arguments: Any, programs: ProgramMetrics | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._programs = programs
        self._eval_loss = torch.zeros(2, dtype=torch.float64)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """The trainer's own metrics on held-out rows, if there are any, and the metrics of held-out
        questions."""
        with preserved_random_state():
            metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
            if self._programs is not None and eval_dataset is None and metric_key_prefix == "eval":
                figures = {f"eval_{name}": value for name, value in self._programs(self).items()}
                # Logged separately: in training mode TRL would add its training averages to the line.
                tuned: Any = self.model
                tuned.eval()
                self.log(dict(figures))
                metrics.update(figures)
        return metrics

    def count_eval_loss(self, loss: torch.Tensor, weight: torch.Tensor | float) -> None:
        """Count the mean loss of a batch of this process, over `weight` tokens or rows."""
        if weight > 0:
            # In double precision: a sum over all tokens loses digits in single.
            counted = torch.as_tensor(weight, dtype=torch.float64, device=loss.device)
            self._eval_loss += torch.stack([loss.detach() * counted, counted]).cpu()

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """As in transformers, except for the loss: a mean over all that was counted. transformers averages
        the batches' means, so that a token counts the more, the fewer are in its batch."""
        self._eval_loss.zero_()
        output: Any = super().evaluation_loop(
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        counted: Any = self.accelerator.reduce(self._eval_loss.to(self.accelerator.device), "sum")
        total, weight = counted.tolist()
        if weight > 0:
            output.metrics[f"{metric_key_prefix}_loss"] = total / weight
        return output


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """After the block, all random numbers are those that would have followed without it: dropout in training
    is the same, whether a run is evaluated or not."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
