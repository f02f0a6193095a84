"""What the trainers of this project have in common: whole checkpoints, steps of finite numbers, programs that
are run on held-out questions.

Knows trainers; must not know what is learned.
"""

from __future__ import annotations

from videopro.train.runtime.evaluating_trainer import MeasuredTrainer
from videopro.train.runtime.finite_steps import FiniteSteps
from videopro.train.runtime.whole_checkpoints import WholeCheckpoints


class RunTrainer(FiniteSteps, WholeCheckpoints, MeasuredTrainer):
    """To be inherited from before a class of TRL's."""
