"""A trainer that stops at a NaN or infinite loss, gradient or weight, and names the rows.

transformers continues instead: it leaves such a loss out of its logs (logging_nan_inf_filter), takes the
step, and saves NaN weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from torch.distributed.tensor import DTensor
from transformers import Trainer
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.errors import RunError
from videopro.storage import non_finite

ROW_IDS = "row_ids"
"""The key, in a batch, of the list of its rows' ids."""

_FIX = (
    "Earlier checkpoints are intact, but the same command would fail at the same step: set a lower "
    "learning_rate, a max_grad_norm or a wider dtype, and another output_dir"
)


class FiniteStepsMixin(Trainer):
    """A mixin: list it before TRL's trainer class in the bases. If any rank's loss or the gradient is NaN or
    infinite, `train` raises RunError on every rank, naming step and rows, before anything is saved."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._passes: list[tuple[list[str], torch.Tensor]] = []
        """The row ids and the loss of each micro-batch of the current step."""
        self._ids: list[str] = []

    def training_step(self, *arguments: Any, **settings: Any) -> torch.Tensor:
        """The loss of a micro-batch, as in transformers."""
        self._ids = []
        loss = super().training_step(*arguments, **settings)
        self._passes.append((self._ids, loss.detach()))
        return loss

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **settings: Any) -> Any:
        """As in transformers; the batch may also have ROW_IDS."""
        self._ids = list(inputs.get(ROW_IDS, ()))
        model_inputs = {name: value for name, value in inputs.items() if name != ROW_IDS}
        return super().compute_loss(model, model_inputs, *arguments, **settings)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        # The only method that transformers calls between a step's last backward pass and the optimizer step.
        norm = super()._get_grad_norm(model, grad_norm)
        passes, self._passes = self._passes, []
        self._check_step(passes, None if norm is None else float(norm))
        return norm

    def _check_step(self, passes: list[tuple[list[str], torch.Tensor]], norm: float | None) -> None:
        losses = torch.stack([loss.float() for _, loss in passes]).tolist() if passes else []
        # In fp16 an infinite gradient is normal: the scaler skips the step and lowers the scale.
        gradient = 0.0 if norm is None or self.args.fp16 else norm
        wrong = [ids for (ids, _), loss in zip(passes, losses, strict=True) if not math.isfinite(loss)]
        if not self._on_any(bool(wrong) or not math.isfinite(gradient)):
            return
        rows = [row for ids in (wrong or [ids for ids, _ in passes]) for row in ids]
        ranks = gather_object([{"loss": losses, "rows": rows, "certain": bool(wrong)}])
        suspects = [rank for rank in ranks if rank["certain"]] or ranks
        ids = [row for rank in suspects for row in rank["rows"]]
        worst = next((loss for rank in ranks for loss in rank["loss"] if not math.isfinite(loss)), None)
        problem = f"the loss is {worst}" if worst is not None else f"the norm of the gradient is {gradient}"
        raise self.stopped(problem, ids)

    def stopped(self, problem: str, ids: Sequence[str]) -> RunError:
        """The error that ends a run at the current step because of `problem`, in the rows with these ids."""
        named = ", ".join(dict.fromkeys(ids)) or "of this step"
        return RunError(
            f"step {self.state.global_step + 1}: {problem}, with the rows {named}; check these first. {_FIX}"
        )

    def _on_any(self, here: bool) -> bool:
        """Whether it holds on any rank."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def check_weights(self) -> None:
        """Raise RunError, on every rank, if a trained weight is NaN or infinite on any rank."""
        name = non_finite(self._trained())
        if self._on_any(name is not None):
            first = next(each for each in gather_object([name]) if each is not None)
            raise RunError(
                f"step {self.state.global_step}: some weights are NaN or infinite (the first: {first}); they "
                f"were not saved. {_FIX}"
            )

    def _trained(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This rank's shard of every trained weight."""
        model: Any = self.model
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                part = weight.ds_tensor if is_deepspeed_zero3_enabled() else weight
                yield name, part.to_local() if isinstance(part, DTensor) else part

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.check_weights()
        super()._save_checkpoint(model, trial)
