"""A training run from its first step, or its last checkpoint, to the files that it ends with.

Knows that a trainer trains and saves, and the record; must not know what is learned or shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import load_file, save_file
from transformers import Trainer
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig

from train.run_start import Rows, Start
from train.sft_data import digest
from train.sft_record import check_same, describe, keep, write_budgets
from videopro.backbones.fingerprint import folder_fingerprint


def carry_out(
    trainer: Trainer,
    model: ModelConfig,
    start: Start,
    rows: Rows[Any],
    *,
    also: Sequence[str],
) -> None:
    """Train, from the last checkpoint if there is one, and leave the weights and the record in the run's
    folder. `also`: settings of this kind of run that decide the weights that it ends with. Raises RunError
    for the checkpoints of another run."""
    training: Any = trainer.args
    output = Path(str(training.output_dir))
    state = PartialState()
    run = describe(
        training,
        model,
        start.found,
        rows=digest(training.train_path),
        frames=start.frames,
        pixels=start.pixels,
        also=also,
    )
    run["adapter"] = folder_fingerprint(Path(start.adapter)) if start.adapter else None
    last = get_last_checkpoint(str(output)) if output.is_dir() else None
    if last is not None:
        check_same(output, run)
    state.wait_for_everyone()
    if state.is_main_process:
        keep(output, run, rows=rows.train, dropped=rows.dropped)
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model(str(output))
    trainer.save_state()
    if state.is_main_process:
        keep(output, run, rows=rows.train, dropped=rows.dropped, history=trainer.state.log_history)
        if not (model.use_peft or start.adapter):
            write_budgets(output, frames=start.frames, pixels=start.pixels)
        elif training.adapter_dtype == "bfloat16":
            in_bfloat16(output / "adapter_model.safetensors")
    state.wait_for_everyone()


def in_bfloat16(file: Path) -> None:
    """Halve an adapter's file."""
    weights: dict[str, Any] = {name: one.to(torch.bfloat16) for name, one in load_file(file).items()}
    part = file.with_suffix(".part")
    save_file(weights, part, metadata={"format": "pt"})
    part.replace(file)
