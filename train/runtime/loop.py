"""A training run from its first step, or its last whole checkpoint, to the files that it ends with.

Knows that a trainer trains and saves, and the record; must not know what is learned or shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import load_file, save_file
from trl import ModelConfig

from videopro.backbones.fingerprint import folder_fingerprint
from videopro.storage import writing
from videopro.train.runtime.checkpoint_faults import STATE
from videopro.train.runtime.checkpoint_files import checkpoints, publish_checkpoint
from videopro.train.runtime.record import check_same_run, describe_run, write_budgets, write_record
from videopro.train.runtime.rows import digest
from videopro.train.runtime.setup import TrainingRows, TrainingSetup
from videopro.train.runtime.trainer import RunTrainer
from videopro.train.runtime.whole_checkpoints import RESUME_HINT, find_resume_checkpoint


def run_training(
    trainer: RunTrainer,
    model: ModelConfig,
    start: TrainingSetup,
    rows: TrainingRows[Any],
    *,
    also: Sequence[str],
) -> None:
    """Train, from the last whole checkpoint if there is one, and leave the weights and the record in the
    run's folder. `also`: settings of this kind of run that decide the weights that it ends with. Raises
    RunError for the checkpoints of another run, for steps that come to no numbers and for a full disk."""
    training: Any = trainer.args
    output = trainer.output
    state = PartialState()
    run = describe_run(
        training,
        model,
        start.found,
        rows=digest(training.train_path),
        frames=start.frames,
        pixels=start.pixels,
        also=also,
    )
    run["adapter"] = folder_fingerprint(Path(start.adapter)) if start.adapter else None
    if checkpoints(output):
        check_same_run(output, run)
    state.wait_for_everyone()
    with writing("what the run leaves", output, then=RESUME_HINT):
        last = find_resume_checkpoint(output, trainer.logs, weights_only=training.save_only_model)
        if state.is_main_process:
            write_record(output, run, rows=rows.train, dropped=rows.dropped)
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    trainer.check_weights()
    with trainer.staged_checkpoint("what was trained") as aside:
        trainer.save_model(str(aside))
        if state.is_main_process:
            trainer.state.save_to_json(str(aside / STATE))
            if not (model.use_peft or start.adapter):
                write_budgets(aside, frames=start.frames, pixels=start.pixels)
            elif training.adapter_dtype == "bfloat16":
                in_bfloat16(aside / "adapter_model.safetensors")
        state.wait_for_everyone()
        if state.is_main_process:
            # Whoever finds weights finds what belongs to them.
            for one in sorted(aside.iterdir(), key=lambda one: (one.suffix == ".safetensors", one.name)):
                publish_checkpoint(one, output / one.name)
            write_record(
                output, run, rows=rows.train, dropped=rows.dropped, history=trainer.state.log_history
            )
        state.wait_for_everyone()


def in_bfloat16(file: Path) -> None:
    """Halve an adapter's file."""
    weights: dict[str, Any] = {name: one.to(torch.bfloat16) for name, one in load_file(file).items()}
    part = file.with_suffix(".part")
    save_file(weights, part, metadata={"format": "pt"})
    part.replace(file)
