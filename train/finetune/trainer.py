"""TRL's SFTTrainer for rows with videos: correct losses over micro-batches, a learning rate for each part of
the model, and programs that are run on held-out questions at each evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial
from torch.utils.data import Sampler
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl import SFTTrainer

from videopro.backbones.qwen import QwenRunner
from videopro.train.finetune.collator import IGNORE_INDEX, VIDEOS
from videopro.train.finetune.config import VideoSFTConfig
from videopro.train.finetune.layout import KeptFeatures, joined, widened
from videopro.train.packing import RowShape, check_parts
from videopro.train.runtime import DummyVision, RunTrainer


@contextmanager
def gather_head(model: PreTrainedModel) -> Iterator[None]:
    """Within, the weights of `model.get_output_embeddings()` are gathered from all ranks, and their gradients
    averaged over the ranks, as FSDP does. TRL's losses use the head's weights without calling it, and gather
    sharded ones too, but each rank's shard then gets only the gradients of its own rows."""
    find: Any = model.get_output_embeddings

    def gathered() -> SimpleNamespace:
        head = find()
        return SimpleNamespace(weight=_full_tensor(head.weight), bias=_full_tensor(head.bias))

    model.get_output_embeddings = gathered  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.get_output_embeddings


def _full_tensor(weight: Tensor | None) -> Tensor | None:
    if not isinstance(weight, DTensor):
        return weight
    return weight.full_tensor(grad_placements=[Partial("avg")] * weight.device_mesh.ndim)


class VideoSFTTrainer(RunTrainer, SFTTrainer):
    """SFTTrainer with `VideoSFTConfig` and a `VideoCollator`."""

    args: VideoSFTConfig

    def __init__(self, *arguments: Any, args: VideoSFTConfig, **settings: Any) -> None:
        # TRL joins rows in its own collator, and refuses another one.
        self._joins, args.padding_free = args.padding_free, False
        super().__init__(*arguments, args=args, **settings)
        args.padding_free = self._joins
        # Qwen's vision-language classes declare that they do not accept num_items_in_batch, and Trainer then
        # averages the micro-batches' means, which gives short replies more weight. TRL's loss normalizes by
        # the number of tokens over micro-batches and ranks, once it is passed that number.
        self.model_accepts_loss_kwargs = True
        core = self._base.model
        self._dummy = DummyVision(core)
        device = self.accelerator.device
        self._shape = RowShape.of(self._base, device, autocast=args.bf16 or args.fp16)
        if self._joins:
            is_recurrent = QwenRunner(self._base, ends=(), pad=0).is_recurrent
            check_parts("padding_free", self._base, is_recurrent, aux_loss=self.aux_loss_enabled, flash=True)
        self._features = None
        # Nor where they are sharded: ranks would gather the tower in some steps and not in others.
        sharded = self.is_fsdp_enabled or is_deepspeed_zero3_enabled()
        if args.kept_features_gb > 0 and self._keeps_vision and not sharded:
            self._features = KeptFeatures(core, device, int(args.kept_features_gb * 1e9))
        self._eval_tokens: list[float] = []

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        # Private, since a sampler is no argument of the trainer.
        sampler = super()._get_train_sampler(train_dataset)
        if isinstance(sampler, LengthGroupedSampler):
            return _EpochOrder(sampler, lambda: self.args.seed + int(self.state.epoch or 0))
        return sampler

    def _laid_out(self, model: Any, videos: Sequence[str]) -> Callable[..., Any]:
        """The model, called with a batch as the collator makes it. TRL counts the tokens of that batch."""

        def run(**batch: Any) -> Any:
            if self._features is not None and videos:
                with self.accelerator.autocast():
                    batch = self._features.put(batch, videos)
            if self._joins:
                return model(**joined(batch, self._base.model, self._shape))
            return model(**widened(batch, self._shape))

        return run

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **settings: Any) -> Any:
        """The mean loss over all labelled tokens of the batch, across micro-batches and ranks."""
        inputs = dict(inputs)
        laid_out = self._laid_out(model, inputs.pop(VIDEOS, ()))
        # TRL's token count starts at 0 in each process; the one in the state is saved with checkpoints.
        is_uncounted = self.args.include_num_input_tokens_seen == "no"
        if is_uncounted:
            self._total_train_tokens = self.state.num_input_tokens_seen
        # Where features are kept, no rank needs the tower of another.
        dummy = nullcontext() if self._features is not None else self._dummy.on()
        with dummy, gather_head(self._base):
            loss = super().compute_loss(laid_out, inputs, *arguments, **settings)
        if is_uncounted:
            self.state.num_input_tokens_seen = self._total_train_tokens
        return loss

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        """As in TRL; counts the loss over reply tokens."""
        labels = self._own_labels(self._prepare_input(inputs["labels"]))
        tokens = labels[:, 1:].ne(IGNORE_INDEX).sum()
        with self._without_aux_loss():
            output = super().prediction_step(
                model, {**inputs, "labels": labels}, prediction_loss_only, ignore_keys
            )
        self.count_eval_loss(output[0], tokens)
        # As many as TRL's own metrics of this batch were measured on.
        self._eval_tokens.append(float(self.accelerator.gather_for_metrics(tokens).sum()))
        return output

    def evaluation_loop(self, *arguments: Any, **settings: Any) -> Any:
        """As in TRL; token metrics are means over all tokens too."""
        self._eval_tokens = []
        output = super().evaluation_loop(*arguments, **settings)
        counted = sum(self._eval_tokens)
        for name in ("entropy", "mean_token_accuracy"):
            values: list[Any] = self._metrics["eval"][name]
            # Only if TRL has a value for each batch that was counted here.
            if len(values) == len(self._eval_tokens) and counted:
                weighted = zip(values, self._eval_tokens, strict=True)
                self._metrics["eval"][name] = [sum(value * tokens for value, tokens in weighted) / counted]
        return output

    def _own_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Without the rows that accelerate repeats at the end of the last batch so that all ranks have
        equally many."""
        state = self.accelerator.gradient_state
        if not (state.end_of_dataloader and state.remainder > 0):
            return labels
        # The rows of this rank in the last batch of all ranks.
        first = self.accelerator.process_index * self.args.per_device_eval_batch_size
        is_first = torch.arange(first, first + len(labels), device=labels.device) < state.remainder
        return labels.masked_fill(~is_first[:, None], IGNORE_INDEX)

    @contextmanager
    def _without_aux_loss(self) -> Iterator[None]:
        """Within, the loss is that of the tokens alone. The router's, of a mixture of experts, is computed
        over whole batches, so that it depends on their size."""
        enabled, self.aux_loss_enabled = self.aux_loss_enabled, False
        try:
            yield
        finally:
            self.aux_loss_enabled = enabled


class _EpochOrder(Sampler[int]):
    """The order of a sampler, seeded for each epoch: it continues the random numbers of the epoch before,
    which a run that is resumed in a later one has not drawn."""

    def __init__(self, sampler: LengthGroupedSampler, seed: Callable[[], int]) -> None:
        self._sampler, self._seed = sampler, seed

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        self._sampler.generator = torch.Generator().manual_seed(self._seed())
        return iter(self._sampler)
