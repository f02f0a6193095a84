"""A trainer that stops at a loss, a gradient or a weight that is no number, and names the rows.

transformers goes on: it leaves such a loss out of what it logs (logging_nan_inf_filter), steps, and saves
weights of NaN. Knows trainers; must not know what is learned.
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
from videopro.storage.finite_weights import non_finite

ROW_IDS = "row_ids"
"""In a batch: the ids of its rows, a list."""

_FIX = (
    "Checkpoints before it are as they were, and the same command would come to it again: give a lower "
    "learning_rate, a max_grad_norm or a wider dtype, and another output_dir"
)


class FiniteStepsMixin(Trainer):
    """To be inherited from before a trainer's own class. On every rank `train` raises RunError, naming step
    and rows, where a rank's loss or the gradient is NaN or infinite, before anything of it is saved."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._passes: list[tuple[list[str], torch.Tensor]] = []
        """Of the step that is being taken: each micro-batch's rows and loss."""
        self._ids: list[str] = []

    def training_step(self, *arguments: Any, **settings: Any) -> torch.Tensor:
        """The loss of a micro-batch, as in transformers."""
        self._ids = []
        loss = super().training_step(*arguments, **settings)
        self._passes.append((self._ids, loss.detach()))
        return loss

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **settings: Any) -> Any:
        """As in transformers; the batch may hold ROW_IDS."""
        self._ids = list(inputs.get(ROW_IDS, ()))
        known = {name: value for name, value in inputs.items() if name != ROW_IDS}
        return super().compute_loss(model, known, *arguments, **settings)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        # The one thing that transformers asks for between a step's last gradient and the optimizer.
        norm = super()._get_grad_norm(model, grad_norm)
        passes, self._passes = self._passes, []
        self._check_step(passes, None if norm is None else float(norm))
        return norm

    def _check_step(self, passes: list[tuple[list[str], torch.Tensor]], norm: float | None) -> None:
        losses = torch.stack([loss.float() for _, loss in passes]).tolist() if passes else []
        # In fp16 an infinite gradient is usual: the scaler leaves the step out and scales less.
        gradient = 0.0 if norm is None or self.args.fp16 else norm
        wrong = [ids for (ids, _), loss in zip(passes, losses, strict=True) if not math.isfinite(loss)]
        if not self._on_any(bool(wrong) or not math.isfinite(gradient)):
            return
        rows = [one for ids in (wrong or [ids for ids, _ in passes]) for one in ids]
        told = {"loss": losses, "rows": rows, "certain": bool(wrong)}
        everyone = gather_object([told])
        suspects = [one for one in everyone if one["certain"]] or everyone
        ids = [row for one in suspects for row in one["rows"]]
        worst = next((x for one in everyone for x in one["loss"] if not math.isfinite(x)), None)
        what = f"the loss is {worst}" if worst is not None else f"the norm of the gradient is {gradient}"
        raise self.stopped(what, ids)

    def stopped(self, what: str, ids: Sequence[str]) -> RunError:
        """The end of a run at the step that is being taken, by `what`, with the rows of these ids."""
        named = ", ".join(dict.fromkeys(ids)) or "of this step"
        return RunError(
            f"step {self.state.global_step + 1}: {what}, with the rows {named}; look at these first. {_FIX}"
        )

    def _on_any(self, here: bool) -> bool:
        """Whether it holds on any rank."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def check_weights(self) -> None:
        """Raise RunError, on every rank, if a weight that is trained is NaN or infinite on any."""
        name = non_finite(self._trained())
        if self._on_any(name is not None):
            named = next(one for one in gather_object([name]) if one is not None)
            raise RunError(
                f"step {self.state.global_step}: the weights are no numbers any more (the first: {named}), "
                f"and are not saved. {_FIX}"
            )

    def _trained(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This rank's part of every weight that is trained."""
        model: Any = self.model
        for name, one in model.named_parameters():
            if one.requires_grad:
                part = one.ds_tensor if is_deepspeed_zero3_enabled() else one
                yield name, part.to_local() if isinstance(part, DTensor) else part

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.check_weights()
        super()._save_checkpoint(model, trial)
