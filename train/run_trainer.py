"""What the trainers of this project have in common: whole checkpoints, steps of finite numbers, programs that
are run on held-out questions.

Knows trainers; must not know what is learned.
"""

from __future__ import annotations

from train.finite_steps import FiniteSteps
from train.measured import MeasuredTrainer
from train.whole_checkpoints import WholeCheckpoints


class RunTrainer(FiniteSteps, WholeCheckpoints, MeasuredTrainer):
    """To be inherited from before a class of TRL's."""
