"""Trainers whose evaluations also run programs on held-out questions.

Knows trainers; must not know how anything is measured or learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import Trainer

ProgramMetrics = Callable[[Trainer], dict[str, float]]


class EvaluatingTrainer(Trainer):
    """To be inherited from before a trainer's own class.

    `programs`: measures planning on held-out questions; its figures join those of every evaluation, so that
    they can be logged, plotted and used as `metric_for_best_model`.
    """

    def __init__(self, *arguments: Any, programs: ProgramMetrics | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._programs = programs

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """What the trainer itself measures on held-out rows, if there are any, and the figures of held-out
        questions."""
        found = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        if self._programs is not None and eval_dataset is None and metric_key_prefix == "eval":
            figures = {f"eval_{name}": value for name, value in self._programs(self).items()}
            # A line of its own: in training mode TRL would take it for one of training and add its averages.
            tuned: Any = self.model
            tuned.eval()
            self.log(dict(figures))
            found.update(figures)
        return found
