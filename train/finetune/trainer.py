"""TRL's SFTTrainer for rows with videos: correct losses over micro-batches, a learning rate for each part of
the model, and programs that are run on held-out questions at each evaluation.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate.utils import is_peft_model
from trl import SFTTrainer

from videopro.train.finetune.config import VideoSFTConfig
from videopro.train.finetune.sharded_head import gather_head
from videopro.train.runtime import DummyVision, Part, RunTrainer, parameter_groups


class VideoSFTTrainer(RunTrainer, SFTTrainer):
    """SFTTrainer with `VideoSFTConfig` and a `VideoCollator`."""

    args: VideoSFTConfig

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # Qwen's vision-language classes declare that they do not accept num_items_in_batch, and Trainer then
        # averages the micro-batches' means, which gives short replies more weight. TRL's loss normalizes by
        # the number of tokens over micro-batches and ranks, once it is passed that number.
        self.model_accepts_loss_kwargs = True
        tuned: Any = self.model
        self._base = tuned.get_base_model() if is_peft_model(tuned) else tuned
        self._dummy = DummyVision(self._base.model)

    def compute_loss(self, *arguments: Any, **settings: Any) -> Any:
        """The mean over all labelled tokens of the batch, across micro-batches and ranks."""
        # TRL's token count starts at 0 in each process; the one in the state is saved with checkpoints.
        kept = self.args.include_num_input_tokens_seen == "no"
        if kept:
            self._total_train_tokens = self.state.num_input_tokens_seen
        with self._dummy.on(), gather_head(self._base):
            loss = super().compute_loss(*arguments, **settings)
        if kept:
            self.state.num_input_tokens_seen = self._total_train_tokens
        return loss

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The optimizer that the settings name, with a parameter group for each part of the model."""
        if self.optimizer is None:
            tuned: Any = self.model if model is None else model
            rate = self.args.learning_rate
            rates: dict[Part, float] = {
                "language": rate,
                "projector": rate if self.args.projector_lr is None else self.args.projector_lr,
                "vision": rate if self.args.vision_lr is None else self.args.vision_lr,
            }
            groups = parameter_groups(
                tuned, rates, self.args.weight_decay, set(self.get_decay_parameter_names(tuned))
            )
            kind, settings = self.get_optimizer_cls_and_kwargs(self.args, tuned)
            self.optimizer = kind(groups, **settings)
        return self.optimizer
