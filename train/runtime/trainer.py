"""What the trainers of this project have in common: whole checkpoints, steps of finite numbers, programs that
are run on held-out questions.

Knows trainers; must not know what is learned.
"""

from __future__ import annotations

from videopro.train.runtime.evaluating_trainer import EvaluatingTrainer
from videopro.train.runtime.finite_steps import FiniteStepsMixin
from videopro.train.runtime.whole_checkpoints import AtomicCheckpointsMixin


class RunTrainer(FiniteStepsMixin, AtomicCheckpointsMixin, EvaluatingTrainer):
    """To be inherited from before a class of TRL's."""
