"""Fine-tunes a planner on trajectories: which mode to reason in, which program to write, how to mend one
(section 3.6, training stage 1).

    accelerate launch train/sft.py --config configs/sft/pocket.yaml --train_data sft.jsonl --output_dir RUN

Flags and the YAML file take every setting of `videopro.train.finetune.config`, of TRL's SFTConfig and of its
ModelConfig. Starts with a new adapter, or from one (`adapter`). Killed at any moment, the same command goes
on from the last checkpoint. Ends with an adapter (or, without `use_peft`, a model) in `output_dir`, and the
record of how it was made.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback
from trl import ModelConfig

from videopro.errors import ConfigError
from videopro.train.finetune.collator import VideoCollator, as_dataset
from videopro.train.finetune.config import VideoSFTConfig
from videopro.train.finetune.data import SFTRow, read_rows
from videopro.train.finetune.trainer import VideoSFTTrainer
from videopro.train.runtime.loop import run_training
from videopro.train.runtime.settings import read_settings, run_command
from videopro.train.runtime.setup import TrainingRows, TrainingSetup
from videopro.train.runtime.trainable import load_trainable, put_trained, trained_parts

# What decides which weights a run ends with, beside what any training's settings decide.
_SFT_SETTINGS = ("vision", "projector", "vision_lr", "projector_lr", "neftune_noise_alpha")


def train(
    training: VideoSFTConfig, model_settings: ModelConfig, *, callbacks: Sequence[TrainerCallback] = ()
) -> VideoSFTTrainer:
    """One run, from files to a trained adapter; `callbacks`: of transformers, to look on with. Raises
    VideoProError for what the user can mend."""
    start = TrainingSetup.of(training, model_settings)
    cache = start.frame_cache(training.frame_cache)
    rows = TrainingRows(
        read_rows(training.train_path),
        read_rows(Path(training.eval_data)) if training.eval_data else [],
        {},
    ).decoded(cache, training.decode_workers)

    # The model, and what of it is trained
    model = load_trainable(start.found, model_settings)
    parts = trained_parts(training.vision, training.projector)
    tuned, lora = put_trained(model, model_settings, parts, adapter=start.adapter, base=start.found.name)
    programs = start.evaluation(
        training,
        modules=training.mapping("eval_modules"),
        longest=training.eval_max_new_tokens,
        seed=training.seed,
        output=Path(str(training.output_dir)),
    )

    trainer = VideoSFTTrainer(
        model=tuned,
        args=training,
        train_dataset=as_dataset(rows.train),
        # Empty: evaluations of programs alone.
        eval_dataset=(as_dataset(rows.held_out) if rows.held_out else {})
        if training.eval_strategy != "no"
        else None,
        data_collator=VideoCollator(start.inputs, cache),
        processing_class=start.found.processor,
        peft_config=lora,
        callbacks=list(callbacks),
        programs=programs,
    )
    if programs is not None and trainer.is_fsdp_enabled:
        raise ConfigError(
            "eval_questions is given under FSDP, whose ranks hold parts of weights and cannot write alone; "
            "leave it out and measure checkpoints with python -m videopro.infer"
        )
    if lora is not None and training.vision == "trained" and _reentrant(training):
        raise ConfigError(
            "vision is trained by adapters with reentrant gradient checkpointing (which ZeRO-3 asks for) and "
            "would get no gradients: give gradient_checkpointing: false, or use ZeRO-2"
        )
    if PartialState().is_main_process:
        trainer.accelerator.print(_startup_line(trainer, rows.train, parts))
    run_training(trainer, model_settings, start, rows, also=_SFT_SETTINGS)
    return trainer


def _startup_line(trainer: VideoSFTTrainer, rows: Sequence[SFTRow], parts: Sequence[str]) -> str:
    assert trainer.model is not None
    weights = [one for one in trainer.model.parameters() if one.requires_grad]
    videos = len({row.video for row in rows if row.video is not None})
    return (
        f"{len(rows)} rows, {videos} videos; training {sum(one.numel() for one in weights):,} weights in the "
        f"{', '.join(parts)}"
    )


def _reentrant(training: VideoSFTConfig) -> bool:
    settings = training.gradient_checkpointing_kwargs
    asked = isinstance(settings, dict) and bool(settings.get("use_reentrant"))
    return training.gradient_checkpointing and asked


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for what the user can mend, 130 when interrupted."""
    return run_command(lambda: train(*read_settings(VideoSFTConfig, "train/sft.py", argv)))


if __name__ == "__main__":
    sys.exit(main())
