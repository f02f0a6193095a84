"""Fine-tunes a planner on trajectories: which mode to reason in, which program to write, how to mend one
(section 3.6, training stage 1).

    accelerate launch train/sft.py --config configs/sft/pocket.yaml --train_data sft.jsonl --output_dir RUN

Flags and the YAML file take every setting of `train.sft_config`, of TRL's SFTConfig and of its ModelConfig.
Killed at any moment, the same command goes on from the last checkpoint. Ends with an adapter (or, without
`use_peft`, a model) in `output_dir`, and the record of how it was made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import PartialState
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, TrlParser

from train.collator import VideoCollator, as_dataset
from train.frame_cache import FrameCache
from train.held_out import load_held_out
from train.run_steps import decode, in_bfloat16, name_dropped
from train.sft_config import VideoSFTConfig
from train.sft_data import Row, digest, read_rows, without_unreadable
from train.sft_eval import ProgramEvaluation
from train.sft_record import check_same, describe, keep, write_budgets
from train.sft_trainer import VideoSFTTrainer
from train.tuned_model import choose_trained, load_trainable, trained_parts
from videopro.backbones import read_spec
from videopro.backbones.qwen_inputs import QwenInputs
from videopro.backbones.qwen_load import find
from videopro.errors import ConfigError, VideoProError
from videopro.module_models import cache_root


def train(training: VideoSFTConfig, model_settings: ModelConfig) -> VideoSFTTrainer:
    """One run, from files to a trained adapter. Raises VideoProError for what the user can mend."""
    if not model_settings.model_name_or_path:
        raise ConfigError("model_name_or_path is missing; give pocket, a hub name or a folder")
    output = Path(str(training.output_dir))
    state = PartialState()

    # The model's processor, and prompts as in inference
    found = find(read_spec(model_settings.model_name_or_path).model)
    frames = found.frames if training.frames is None else training.frames
    pixels = found.pixels if training.pixels is None else training.pixels
    inputs = QwenInputs(found.processor, frames=frames, pixels=pixels, device=torch.device("cpu"))

    # Rows, and every video decoded once
    cache = FrameCache(
        Path(training.frame_cache) if training.frame_cache else cache_root() / "frames",
        count=frames,
        resize=inputs.frame_size,
        form=f"{'video' if inputs.has_times else 'image'}{inputs.patch}-{pixels}",
    )
    rows = read_rows(training.train_path)
    eval_rows = read_rows(Path(training.eval_data)) if training.eval_data else []
    failures = decode(cache, [*rows, *eval_rows], training.decode_workers, state)
    rows, dropped = without_unreadable(rows, failures)
    if eval_rows:
        eval_rows, eval_dropped = without_unreadable(eval_rows, failures)
        dropped += eval_dropped
    if state.is_main_process:
        name_dropped(dropped, failures)

    # The model, and what of it is trained
    model = load_trainable(found, model_settings)
    parts = trained_parts(training.vision, training.projector)
    lora = choose_trained(model, model_settings, parts)

    # What is measured on the way
    programs = None
    if training.eval_questions:
        with state.main_process_first():
            held_out = load_held_out(training.eval_questions, limit=training.eval_limit, seed=training.seed)
        programs = ProgramEvaluation(
            held_out,
            found,
            frames=frames,
            pixels=pixels,
            modules=training.modules,
            max_new_tokens=training.eval_max_new_tokens,
            log=output / "questions",
        )

    trainer = VideoSFTTrainer(
        model=model,
        args=training,
        train_dataset=as_dataset(rows),
        # Empty: evaluations of programs alone.
        eval_dataset=(as_dataset(eval_rows) if eval_rows else {}) if training.eval_strategy != "no" else None,
        data_collator=VideoCollator(inputs, cache),
        processing_class=found.processor,
        peft_config=lora,
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
    if state.is_main_process:
        trainer.accelerator.print(_told(trainer, rows, parts))

    # Train, from the last checkpoint if there is one
    run = describe(
        training, model_settings, found, rows=digest(training.train_path), frames=frames, pixels=pixels
    )
    last = get_last_checkpoint(str(output)) if output.is_dir() else None
    if last is not None:
        check_same(output, run)
    state.wait_for_everyone()
    if state.is_main_process:
        names = {row.id: failures[row.video] for row in dropped if row.video is not None}
        keep(output, run, rows=rows, dropped=names)
    trainer.train(resume_from_checkpoint=last)

    # What the run ends with
    trainer.save_model(str(output))
    trainer.save_state()
    if state.is_main_process:
        keep(output, run, rows=rows, dropped=names, history=trainer.state.log_history)
        if lora is None:
            write_budgets(output, frames=frames, pixels=pixels)
        elif training.adapter_dtype == "bfloat16":
            in_bfloat16(output / "adapter_model.safetensors")
    state.wait_for_everyone()
    return trainer


def _told(trainer: VideoSFTTrainer, rows: Sequence[Row], parts: Sequence[str]) -> str:
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
    try:
        training, model_settings = _settings(sys.argv[1:] if argv is None else list(argv))
        train(training, model_settings)
    except VideoProError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


def _settings(argv: list[str]) -> tuple[VideoSFTConfig, ModelConfig]:
    parser = TrlParser((VideoSFTConfig, ModelConfig), prog="train/sft.py", allow_abbrev=False)  # type: ignore[arg-type]
    try:
        training, model_settings = parser.parse_args_and_config(argv)
    except (ValueError, OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"train/sft.py: {error}") from error
    return training, model_settings


if __name__ == "__main__":
    sys.exit(main())
