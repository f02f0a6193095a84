"""Fine-tunes a planner on trajectories: which mode to reason in, which program to write, how to refine one
(section 3.6, training stage 1).

    accelerate launch train/sft.py --config configs/sft/pocket.yaml --train_data sft.jsonl --output_dir RUN

Flags and the YAML file take every setting of `videopro.train.settings`, of TRL's SFTConfig and of its
ModelConfig. Trains a new adapter, or continues an existing one (`adapter`). If the run is killed, re-run the
same command to resume from the last checkpoint. Writes the adapter (without `use_peft`: the model) and the
record of the run to `output_dir`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# First: hides what the libraries below print while they are imported.
import videopro  # noqa: F401

# isort: split
from accelerate import PartialState
from transformers import TrainerCallback

from videopro.cli import needs_extra
from videopro.errors import ConfigError

with needs_extra("train", "videopro sft", __name__):
    from trl import ModelConfig

    from videopro.train.finetune import (
        SFTRow,
        VideoCollator,
        VideoSFTConfig,
        VideoSFTTrainer,
        as_dataset,
        count_tokens,
        read_rows,
    )
    from videopro.train.runtime import (
        Part,
        TrainingRows,
        TrainingSetup,
        coverage_line,
        load_trainable,
        put_trained,
        read_settings,
        run_command,
        run_training,
        sole_training,
        trained_parts,
    )

_PARTS: Mapping[Part, str] = {
    "language": "language model",
    "projector": "projector",
    "vision": "vision tower",
}


def train(
    training: VideoSFTConfig, model_settings: ModelConfig, *, callbacks: Sequence[TrainerCallback] = ()
) -> VideoSFTTrainer:
    """One run, from files to a trained adapter. `callbacks`: transformers callbacks. Raises VideoProError for
    errors the user can fix."""
    start = TrainingSetup.of(training, model_settings)
    cache = start.frame_cache(training)
    rows = TrainingRows.read(training, read_rows).tokenized(lambda row: count_tokens(row, start.inputs))
    rows = rows.decoded(cache, training.decode_workers)
    parts = trained_parts(training.vision, training.projector)
    with sole_training(Path(str(training.output_dir))):
        model = load_trainable(start.checkpoint, model_settings)
        tuned, lora = put_trained(
            model, model_settings, parts, adapter=start.adapter, base=start.checkpoint.name
        )
        programs = start.evaluation(training, rows.reference)
        trainer = VideoSFTTrainer(
            model=tuned,
            args=training,
            train_dataset=as_dataset(rows.train, rows.lengths),
            # Empty: only programs are evaluated.
            eval_dataset=(as_dataset(rows.held_out, rows.lengths) if rows.held_out else {})
            if training.eval_strategy != "no"
            else None,
            data_collator=VideoCollator(start.inputs, cache),
            processing_class=start.checkpoint.processor,
            peft_config=lora,
            callbacks=list(callbacks),
            programs=programs,
        )
        if programs is not None and trainer.is_fsdp_enabled:
            raise ConfigError(
                "eval_questions is set, but FSDP ranks hold shards of the weights and cannot generate "
                "independently; leave it out, and evaluate checkpoints with videopro infer"
            )
        checkpointing: Any = training.gradient_checkpointing and training.gradient_checkpointing_kwargs
        if lora and training.vision == "trained" and checkpointing and checkpointing.get("use_reentrant"):
            raise ConfigError(
                "vision: trained gets no gradients with use_peft and reentrant gradient checkpointing (which "
                "ZeRO-3 needs); set gradient_checkpointing: false, or use ZeRO-2"
            )
        if PartialState().is_main_process:
            trainer.accelerator.print(_startup_line(trainer, rows.train, parts))
        run_training(trainer, model_settings, start, rows)
        return trainer


def _startup_line(trainer: VideoSFTTrainer, rows: Sequence[SFTRow], parts: Sequence[Part]) -> str:
    assert trainer.model is not None
    weights = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    videos = len({row.video for row in rows if row.video is not None})
    return (
        f"{len(rows)} rows, {videos} videos; training {sum(weight.numel() for weight in weights):,} weights "
        f"in the {', '.join(_PARTS[part] for part in parts)}; {coverage_line(trainer.model)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    return run_command(lambda: train(*read_settings(VideoSFTConfig, "sft", argv)))


if __name__ == "__main__":
    sys.exit(main())
