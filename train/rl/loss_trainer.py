"""TRL's GRPOTrainer with the loss of replies to prompts that begin with a video.

TRL runs each prompt with each of its replies, and passes images to the model, but no positions, video or
features. Here pixels, grids and timestamps reach every log-prob pass, and a single pass over each prompt
serves all of its replies.

The loss of replies that an engine drew is corrected by the importance ratio. An engine computes with other
kernels, in another precision, so the probabilities of a token differ a little; of replies that were written
ahead (`rounds`), the weights do too. For its own vLLM, TRL runs the policy once more over all replies to
correct this. While each reply is used once, the update's own pass has the same weights, and gives it for
free.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from trl import GRPOTrainer

from videopro.backbones.qwen import QwenRunner, visual_inputs
from videopro.errors import ConfigError
from videopro.train.packing import RowShape, check_parts
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.rl.prompt_encoder import PromptEncoder
from videopro.train.rl.rollouts import Rollout, Turns
from videopro.train.rl.shared_prefix import pack
from videopro.train.runtime import DummyVision, RunTrainer


@dataclass(frozen=True)
class ImportanceRatio:
    """The ratio, and what is logged of it."""

    values: torch.Tensor
    """By TRL's setting `vllm_importance_sampling_mode`: (rows, tokens), or (rows, 1) of whole replies;
    truncated, or 0 where it is out of bounds."""
    raw: torch.Tensor
    """Of each token of a reply, (all tokens), unchanged."""
    differences: torch.Tensor
    """Of the log-probabilities of each token, (all tokens)."""


def importance_ratio(
    policy: torch.Tensor, drawn: torch.Tensor, mask: torch.Tensor, settings: Any
) -> ImportanceRatio:
    """`policy` and `drawn`: the log-probabilities of replies, (rows, tokens), by the update (or, where a
    reply is used several times, by the policy before the first one) and as drawn; `mask`, 1 for
    their tokens; `settings`, TRL's."""
    differences = torch.nan_to_num((policy - drawn) * mask, nan=0.0)
    of_reply = settings.vllm_importance_sampling_mode.startswith("sequence")
    ratio = (differences.sum(-1, keepdim=True) if of_reply else differences).exp()
    low, high = settings.vllm_importance_sampling_clip_min, settings.vllm_importance_sampling_clip_max
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if settings.vllm_importance_sampling_mode.endswith("truncate"):
        values = ratio.clamp(low, high)
    else:
        values = ratio.masked_fill((ratio < low) | (ratio > high), 0.0)
    chosen = differences[mask.bool()]
    return ImportanceRatio(values, chosen.exp(), chosen.abs())


MakePrompts = Callable[[QwenRunner, bool], PromptEncoder]
"""Called with the policy's `QwenRunner` and whether its vision tower and projector are frozen."""
TokenScores = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


class LossTrainer(RunTrainer, GRPOTrainer):
    """The log-probabilities and the loss of `_rollouts`, those in hand, which a subclass samples."""

    args: VideoGRPOConfig

    def __init__(self, *arguments: Any, make_prompts: MakePrompts, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # In double precision, and with it the rewards that they weigh: in single, eight rewards of 0.7 (those
        # of rows without an oracle mode) have another mean than 0.7, and a group of equal rewards would look
        # unequal.
        self.reward_weights = self.reward_weights.double()
        self._rollouts: list[Rollout] = []
        self._corrected: dict[str, Any] | None = None
        """The batch whose loss is being corrected by the importance ratio."""
        if self.is_fsdp_enabled:
            raise ConfigError(
                "GRPO samples with the whole model in each process, but FSDP shards it; use DeepSpeed "
                "(configs/accelerate/zero2.yaml, zero3.yaml)"
            )
        base = self._base
        self._run = QwenRunner(base, ends=self.eos_token_ids, pad=self._tokenizer.pad_token_id)
        if self.args.shared_prompt:
            check_parts("shared_prompt", base, self._run.is_recurrent, aux_loss=self.aux_loss_enabled)
            autocast = self.args.bf16 or self.args.fp16
            self._row_shape = RowShape.of(base, self.accelerator.device, autocast=autocast)
        self._dummy = DummyVision(base.model)
        self._prompt_encoder = make_prompts(self._run, self._keeps_vision)

    @property
    def _trains(self) -> bool:
        """Whether these are passes of the training, and not of an evaluation."""
        return self.model is not None and self.model.training

    # Log-probabilities

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **visual: Any,
    ) -> TokenScores:
        # Private, since TRL has no hook for what the model is called with: it passes images, but no
        # positions, video or features, and runs each prompt with each of its replies.
        score = self._score_shared_prefix if self.args.shared_prompt else self._score_separately
        size = batch_size or len(input_ids)
        ids, mask = (tensor[:, -logits_to_keep:] for tensor in (input_ids, attention_mask))
        parts = []
        for start in range(0, len(ids), size):
            some = slice(start, start + size)
            turns = Turns.of(self._rollouts[some], ids[some], mask[some])
            # A frozen vision tower need not run in every pass; a trained one must, also in those before the
            # update, since under ZeRO-3 all processes run it together.
            with contextlib.nullcontext() if self._keeps_vision else self._dummy.on():
                values, entropies, loss = score(model, turns, compute_aux_loss, entropy=compute_entropy)
            shape = (len(ids[some]), logits_to_keep)
            entropies = turns.joined(entropies, shape) if entropies is not None else None
            parts.append((turns.joined(values, shape), entropies, loss))
        logps, entropies, losses = zip(*parts, strict=True)
        joined = torch.cat(logps)
        if self._corrected is not None:
            self._correct(self._corrected, joined.detach(), mask)
        return (
            joined,
            torch.cat(entropies) if compute_entropy else None,
            torch.stack(losses).mean() if compute_aux_loss else None,
        )

    def _score_separately(self, model: Any, turns: Turns, aux_loss: bool, *, entropy: bool = True) -> Any:
        """Score each turn in a separate row, by TRL's pass with the rows' positions and visual inputs.
        `entropy`: only if TRL asks for it; the head of its reference model computes none."""
        ids, mask, width = turns.padded(self._tokenizer.pad_token_id, self._run.device)
        types, positions = torch.zeros_like(ids), ids.new_zeros((4, *ids.shape))
        before = ids.shape[1] - width
        reply = torch.arange(width, device=ids.device)
        for row, prompt in enumerate(turns.prompts):
            length = len(prompt.encoded.ids)
            types[row, before - length : before] = torch.tensor(prompt.encoded.types)
            positions[1:, row, before - length : before] = prompt.positions
            positions[1:, row, before:] = prompt.next_position + reply
            positions[0, row, before - length :] = torch.arange(length + width, device=ids.device)
        showing = functools.partial(
            model,
            position_ids=positions,
            mm_token_type_ids=types,
            **visual_inputs([prompt.encoded for prompt in turns.prompts], ids.device),
        )
        return super()._get_per_token_logps_and_entropies(
            showing, ids, mask, width, compute_entropy=entropy, compute_aux_loss=aux_loss
        )

    def _score_shared_prefix(self, model: Any, turns: Turns, aux_loss: bool, *, entropy: bool = True) -> Any:
        """Score the replies of each group with a single pass over its prompt."""
        packed = pack(
            turns.prompts,
            turns.replies,
            pad=self._tokenizer.pad_token_id,
            run=self._run,
            shape=self._row_shape,
            roots=turns.roots,
        )
        with self.accelerator.autocast():
            out = model(**packed.inputs, fused_lm_head=True)
        lengths = torch.tensor([len(reply) for reply in turns.replies], device=self._run.device)
        width = int(lengths.max())
        return (
            packed.unpack(out.log_probs, lengths, width),
            packed.unpack(out.entropy, lengths, width) if out.entropy is not None else None,
            None,
        )

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **settings: Any) -> Any:
        """TRL's loss for a batch."""
        # `rollout_func` hands tensors over; the prompts and videos reach the forward passes from here.
        if self._has_no_gradient(inputs):
            trained = [weight for weight in model.parameters() if weight.requires_grad]
            # A loss of 0 with a graph: the trainer takes the step as any other, with gradients of 0.
            zero = torch.zeros((), device=self._run.device)
            return sum((0 * weight.sum() for weight in trained), start=zero)
        self._rollouts = inputs["rollouts"]
        # A separate dictionary, into which the update's pass puts the importance ratio.
        inputs = dict(inputs)
        with self._correcting(inputs):
            return super().compute_loss(model, inputs, *arguments, **settings)

    @contextlib.contextmanager
    def _correcting(self, inputs: dict[str, Any]) -> Iterator[None]:
        """Within, TRL multiplies its loss by the importance ratio of replies that an engine drew, as it does
        for its own vLLM. The ratio is put into `inputs` when the update's own pass is done (`_correct`)."""
        if "sampling_per_token_logps" not in inputs:
            yield
            return
        self._corrected, self.use_vllm = inputs, True
        try:
            yield
        finally:
            self._corrected, self.use_vllm = None, False

    def _correct(self, inputs: dict[str, Any], policy: torch.Tensor, mask: torch.Tensor) -> None:
        """Put the importance ratio into `inputs`, and log it. `policy`: the log-probabilities of this pass,
        whose weights are those before the round's first update, unless TRL has noted those."""
        drawn, before = inputs["sampling_per_token_logps"], inputs.get("old_per_token_logps", policy)
        ratio = importance_ratio(before, drawn, mask, self.args)
        inputs["importance_sampling_ratio"] = ratio.values
        # With mask_truncated_completions, the replies of a process may have no token that counts.
        raw, differences = (
            values if len(values) else values.new_full((1,), torch.nan)
            for values in (ratio.raw, ratio.differences)
        )
        names = {
            "importance_sampling_ratio/mean": raw.mean(),
            "importance_sampling_ratio/min": raw.min(),
            "importance_sampling_ratio/max": raw.max(),
            "sampling_logp_difference/mean": differences.mean(),
        }
        for name, value in names.items():
            everywhere = self.accelerator.gather(value)
            counted = everywhere[~everywhere.isnan()]
            if len(counted):
                self._log_sampling(name, getattr(counted, name.rpartition("/")[2])().item())

    def _log_sampling(self, name: str, value: float) -> None:
        self._metrics["train" if self._trains else "eval"][f"sampling/{name}"].append(value)

    def _has_no_gradient(self, inputs: Mapping[str, Any]) -> bool:
        """Whether every term of the loss is 0: all rewards within each group are equal, and no other term is
        enabled. False with several processes, since they run their passes together."""
        other_terms = self.beta != 0 or self._entropy_bonus_enabled or self.aux_loss_enabled
        alone = self.accelerator.num_processes == 1
        return alone and not other_terms and not bool(inputs["advantages"].any())

    # Evaluation

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        """As in TRL; counts the loss by tokens or by replies, as `loss_type` does."""
        # The Trainer averages the means of batches, whatever their lengths, and returns no sum and count.
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss = self.compute_loss(model, inputs).mean().detach()
        weight: Any = len(inputs["completion_mask"])
        if self.loss_type == "bnpo":
            weight = inputs["completion_mask"].sum()
        elif self.loss_type in ("cispo", "dapo", "vespo"):
            # They divide by this, the tokens of all processes.
            weight = inputs["num_items_in_batch"] / self.accelerator.num_processes
        self.count_eval_loss(loss, weight)
        return loss, None, None
