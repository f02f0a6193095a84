"""Trainers whose evaluations also run programs on held-out questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import Trainer

ProgramMetrics = Callable[[Trainer], dict[str, float]]


class EvaluatingTrainer(Trainer):
    """A mixin: list it before TRL's trainer class in the bases.

    `programs` measures planning on held-out questions. Its metrics are added to those of every evaluation, so
    that they can be logged, plotted and used as `metric_for_best_model`.
    """

    def __init__(self, *arguments: Any, programs: ProgramMetrics | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._programs = programs

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """The trainer's own metrics on held-out rows, if there are any, and the metrics of held-out
        questions."""
        found = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        if self._programs is not None and eval_dataset is None and metric_key_prefix == "eval":
            figures = {f"eval_{name}": value for name, value in self._programs(self).items()}
            # Logged separately: in training mode TRL would add its training averages to the line.
            tuned: Any = self.model
            tuned.eval()
            self.log(dict(figures))
            found.update(figures)
        return found
