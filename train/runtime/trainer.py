"""The base of this project's trainers: atomic checkpoints, a stop at NaN or infinite steps, and programs that
are run on held-out questions.
"""

from __future__ import annotations

from typing import Any

from videopro.train.runtime.evaluating_trainer import EvaluatingTrainer
from videopro.train.runtime.finite_steps import FiniteStepsMixin
from videopro.train.runtime.layer_passes import set_layer_passes
from videopro.train.runtime.lora_dtype import leave_casts_to_autocast
from videopro.train.runtime.trackers import TrackedRun
from videopro.train.runtime.whole_checkpoints import AtomicCheckpointsMixin


class RunTrainer(FiniteStepsMixin, AtomicCheckpointsMixin, EvaluatingTrainer):
    """A mixin: list it before TRL's trainer class in the bases."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.tracked: TrackedRun | None = None
        """What trackers were sent; None in a process that sends them nothing."""
        tuned: Any = self.model
        leave_casts_to_autocast(tuned)
        set_layer_passes(self)
