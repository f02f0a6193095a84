"""The base of this project's trainers, on transformers' public API: it stops at NaN, completes checkpoints,
and evaluates without changing the training. Which private methods of TRL's trainers are
overridden beyond that is listed in `tests/train/test_private_methods.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object, is_peft_model
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerCallback
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.backbones import ModelRecord, write_model_record
from videopro.backbones.qwen import keep_beyond
from videopro.cli import mark
from videopro.errors import RunError
from videopro.storage import non_finite
from videopro.train.runtime.checkpoints import CompleteCheckpoints
from videopro.train.runtime.layer_passes import leave_casts_to_autocast, set_layer_passes
from videopro.train.runtime.trainable import part_of

ProgramMetrics = Callable[[Trainer], dict[str, float]]

_FIX = (
    "Earlier checkpoints are intact, but the same command fails at the same step: set a lower learning_rate, "
    "a max_grad_norm or a wider dtype, and another output_dir"
)


class RunTrainer(Trainer):
    """A mixin: list it before TRL's trainer class in the bases.

    `logs`: files that the run appends to (`CompleteCheckpoints`). `programs` measures planning on held-out
    questions; its metrics are added to those of every evaluation, so that they can be logged, plotted and
    used as `metric_for_best_model`. A subclass passes the loss of each batch to `count_eval_loss`.

    If any rank's loss, gradient or trained weight is NaN or infinite, `train` raises RunError on every rank
    before anything is saved. transformers would leave such a loss out of its logs, and save the weights."""

    def __init__(
        self,
        *arguments: Any,
        args: Any,
        callbacks: Sequence[TrainerCallback] = (),
        logs: Sequence[Path] = (),
        programs: ProgramMetrics | None = None,
        **settings: Any,
    ) -> None:
        # Before other callbacks: those may rely on what is saved.
        own = [_FiniteSteps(self), CompleteCheckpoints(args, logs), _Marks()]
        super().__init__(*arguments, **{**settings, "args": args, "callbacks": [*own, *callbacks]})
        self.logs = tuple(logs)
        self.model_record: ModelRecord | None = None
        """Saved with every checkpoint, which then loads as a model or adapter."""
        self.base_folder: Path | None = None
        """Has the tensors beyond the model, which go into every checkpoint of a whole model."""
        self.losses: list[torch.Tensor] = []
        """Of the micro-batches of the current step."""
        self._programs = programs
        self._eval_loss = torch.zeros(2, dtype=torch.float64)
        tuned: Any = self.model
        self._base: Any = tuned.get_base_model() if is_peft_model(tuned) else tuned
        """The model without the adapter around it."""
        trained = {part_of(name) for name, weight in self._base.named_parameters() if weight.requires_grad}
        # Features of a video may be kept only while no weight that makes them is trained.
        self._keeps_vision = trained <= {"language"}
        leave_casts_to_autocast(tuned)
        set_layer_passes(self)

    @property
    def output(self) -> Path:
        """The run's folder."""
        return Path(str(self.args.output_dir))

    # Steps

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """The batches of the next update, as in transformers."""
        # Resumed after its last step, within an epoch, transformers would take one more.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return [], None
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def training_step(self, *arguments: Any, **settings: Any) -> torch.Tensor:
        """The loss of a micro-batch, as in transformers."""
        loss = super().training_step(*arguments, **settings)
        self.losses.append(loss.detach())
        return loss

    def stopped(self, problem: str) -> RunError:
        """The error that ends a run at the current step because of `problem`."""
        return RunError(f"step {self.state.global_step + 1}: {problem}. {_FIX}")

    def on_any(self, here: bool) -> bool:
        """Whether it holds on any rank."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    # Saving

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As in transformers, with the record of the model. Raises RunError, on every rank, if a trained
        weight is NaN or infinite on any rank."""
        name = non_finite(self._trained())
        if self.on_any(name is not None):
            first = next(each for each in gather_object([name]) if each is not None)
            raise RunError(
                f"step {self.state.global_step}: some weights are NaN or infinite (first: {first}); they "
                f"were not saved. {_FIX}"
            )
        super().save_model(output_dir, _internal_call)
        folder = self.output if output_dir is None else Path(output_dir)
        if self.args.should_save and self.model_record is not None:
            write_model_record(folder, self.model_record)
        if self.args.should_save and self.base_folder is not None:
            keep_beyond(self.accelerator.unwrap_model(self.model), self.base_folder, folder)

    def _trained(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This rank's shard of every trained weight."""
        model: Any = self.model
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                part = weight.ds_tensor if is_deepspeed_zero3_enabled() else weight
                yield name, part.to_local() if isinstance(part, DTensor) else part

    # Evaluation

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


class _FiniteSteps(TrainerCallback):
    """Looks at the losses and the gradient of each step before the optimizer takes it."""

    def __init__(self, trainer: RunTrainer) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._trainer
        losses = torch.stack([loss.float() for loss in trainer.losses]).tolist() if trainer.losses else []
        trainer.losses = []
        worst = next((loss for loss in losses if not math.isfinite(loss)), None)
        gradient = 0.0
        # In fp16 an infinite gradient is normal: the scaler skips the step and lowers the scale.
        if not args.fp16:
            wrapped: Any = trainer.model_wrapped
            # Without a limit it clips nothing, and returns the norm, whatever shards the gradient.
            norm: Any = trainer.accelerator.clip_grad_norm_(wrapped.parameters(), math.inf)
            gradient = 0.0 if norm is None else float(norm)
        if not trainer.on_any(worst is not None or not math.isfinite(gradient)):
            return
        found = next((loss for loss in gather_object([worst]) if loss is not None), None)
        raise trainer.stopped(
            f"the loss is {found}" if found is not None else f"the norm of the gradient is {gradient}"
        )


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


class _Marks(TrainerCallback):
    """Marks what each step takes (`mark`)."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        mark(state.global_step)

    on_step_end = on_train_begin
