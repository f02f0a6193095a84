"""Reinforces a planner: programs that it samples are run, and those that find the right answer are made more
likely (section 3.6 and Eq. 3, training stage 2).

    accelerate launch train/grpo.py --config configs/grpo/pocket.yaml --train_data grpo.jsonl --output_dir RUN

Flags and the YAML file take every setting of `train.grpo_config`, of TRL's GRPOConfig and of its ModelConfig.
Starts from an adapter (`adapter`), or with a new one on a plain model or merged checkpoint. Killed at any
moment, the same command goes on from the last checkpoint. Ends with an adapter (or, without `use_peft`, a
model) in `output_dir`, the record of how it was made, and every program that was run (`programs.jsonl`).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, TrlParser

from train.frame_cache import FrameCache
from train.grpo_config import VideoGRPOConfig
from train.grpo_data import PromptRow, as_dataset, read_prompts
from train.grpo_prompts import Prompts
from train.held_out import load_held_out
from train.rewards import ProgramRewards
from train.run_steps import decode, in_bfloat16, name_dropped
from train.sft_data import digest, without_unreadable
from train.sft_eval import ProgramEvaluation
from train.sft_record import check_same, describe, keep, write_budgets
from train.tuned_model import choose_trained, load_trainable, without_adapter
from train.video_grpo import VideoGRPOTrainer
from videopro.backbones import load_backbone, read_spec
from videopro.backbones.base import Backbone
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.qwen import QwenBackbone
from videopro.backbones.qwen_inputs import QwenInputs
from videopro.backbones.qwen_load import Checkpoint, Loaded, find, put_adapter
from videopro.config import build
from videopro.errors import ConfigError, VideoProError
from videopro.module_models import ModuleModels, ModuleSettings, cache_root, is_pocket

# What decides which weights a run ends with, beside what any training's settings decide.
_OF_GRPO = (
    *("num_generations", "max_completion_length", "temperature", "top_p", "beta", "num_iterations"),
    *("steps_per_generation", "epsilon", "epsilon_high", "delta", "importance_sampling_level"),
    *("scale_rewards", "multi_objective_aggregation", "mask_truncated_completions", "top_entropy_quantile"),
    *("entropy_coef", "use_adaptive_entropy", "disable_dropout", "shuffle_dataset"),
    *("kinds", "prompt_video", "answerer", "modules"),
)


def train(training: VideoGRPOConfig, model_settings: ModelConfig) -> VideoGRPOTrainer:
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

    # Rows, and every video that a prompt shows decoded once
    rows = read_prompts(training.train_path, training.kinds)
    eval_rows = read_prompts(Path(training.eval_data), training.kinds) if training.eval_data else []
    dropped: list[PromptRow] = []
    names: dict[str, str] = {}
    make_prompts = None
    if training.prompt_video:
        training.check_sampling()
        cache = FrameCache(
            Path(training.frame_cache) if training.frame_cache else cache_root() / "frames",
            count=frames,
            resize=inputs.frame_size,
            form=f"{'video' if inputs.has_times else 'image'}{inputs.patch}-{pixels}",
        )
        failures = decode(cache, [*rows, *eval_rows], training.decode_workers, state)
        rows, dropped = without_unreadable(rows, failures)
        if eval_rows:
            eval_rows, eval_dropped = without_unreadable(eval_rows, failures)
            dropped += eval_dropped
        names = {row.id: failures[row.video] for row in dropped}
        if state.is_main_process:
            name_dropped(dropped, failures)

        def make_prompts(run: Any, frozen: bool) -> Prompts:
            kept = int(training.kept_features_gb * 1e9)
            return Prompts(inputs, cache, run, frozen=frozen, kept_bytes=kept)
    else:
        _keep_visual_tokens_out(training, inputs)

    # The policy: an adapter to go on with, a new one, or the language model's own weights
    model = load_trainable(found, model_settings)
    if not model_settings.load_in_4bit and not model_settings.load_in_8bit:
        model.to(training.device)  # type: ignore[arg-type]
    answerer = _answerer(training, model_settings, found, model, frames, pixels)
    lora, tuned = None, model
    if training.adapter:
        tuned = put_adapter(model, training.adapter, found.name, trained=True)  # type: ignore[assignment]
    else:
        lora = choose_trained(model, model_settings, ["language"])

    # Rewards, and what is measured on the way
    settings = build(ModuleSettings, training.module_models, "modules")
    rewards = ProgramRewards(
        answerer,
        modules=ModuleModels(settings, pocket=is_pocket(answerer)),
        log=output / "programs.jsonl",
        workers=training.reward_workers,
    )
    with rewards:
        training.reward_weights = list(rewards.weights)
        trainer = VideoGRPOTrainer(
            model=tuned,
            args=training,
            reward_funcs=rewards.functions,
            train_dataset=as_dataset(rows),
            # Empty: evaluations of programs alone.
            eval_dataset=(as_dataset(eval_rows) if eval_rows else {})
            if training.eval_strategy != "no"
            else None,
            processing_class=found.processor,
            peft_config=lora,
            make_prompts=make_prompts,
            banned=inputs.visual_tokens(),
            programs=_programs(training, found, frames, pixels, state),
            ahead=rewards if training.run_ahead else None,
        )
        if state.is_main_process:
            trainer.accelerator.print(_told(trainer, rows))

        # Train, from the last checkpoint if there is one
        run = describe(
            training,
            model_settings,
            found,
            rows=digest(training.train_path),
            frames=frames,
            pixels=pixels,
            also=_OF_GRPO,
        )
        run["adapter"] = folder_fingerprint(Path(training.adapter)) if training.adapter else None
        last = get_last_checkpoint(str(output)) if output.is_dir() else None
        if last is not None:
            check_same(output, run)
        state.wait_for_everyone()
        if state.is_main_process:
            keep(output, run, rows=rows, dropped=names)
        trainer.train(resume_from_checkpoint=last)

    # What the run ends with
    trainer.save_model(str(output))
    trainer.save_state()
    if state.is_main_process:
        keep(output, run, rows=rows, dropped=names, history=trainer.state.log_history)
        # TRL's copy of the adapter that the run began with, for the KL term.
        shutil.rmtree(output / "ref", ignore_errors=True)
        if lora is None and not training.adapter:
            write_budgets(output, frames=frames, pixels=pixels)
        elif training.adapter_dtype == "bfloat16":
            in_bfloat16(output / "adapter_model.safetensors")
    state.wait_for_everyone()
    return trainer


def _keep_visual_tokens_out(training: VideoGRPOConfig, inputs: QwenInputs) -> None:
    """Where TRL samples, it is to ban what we ban: of itself it bans one of these tokens."""
    given = training.generation_kwargs
    if isinstance(given, str):
        raise ConfigError(f"generation_kwargs is {given!r}; write a mapping")
    banned = inputs.visual_tokens()
    if training.use_vllm:
        ban: dict[str, Any] = {"logit_bias": dict.fromkeys(banned, -100.0)}
    else:
        ban = {"suppress_tokens": banned}
    training.generation_kwargs = {**(given or {}), **ban}


def _answerer(
    training: VideoGRPOConfig,
    model_settings: ModelConfig,
    found: Checkpoint,
    model: PreTrainedModel,
    frames: int,
    pixels: int,
) -> Backbone:
    """Who answers inside programs. To be called before an adapter is put into `model`."""
    if training.answerer is not None:
        spec = read_spec(training.answerer, frames=frames, pixels=pixels)
        if spec.kind == "qwen":
            spec = spec.but(device_map=str(training.device))
        return load_backbone(spec)
    if not (training.adapter or model_settings.use_peft):
        raise ConfigError(
            "all weights are trained, so no model is left that answers inside programs as before; name one "
            "with answerer, such as the base model or server:MODEL@URL"
        )
    if is_deepspeed_zero3_enabled():
        raise ConfigError(
            "under ZeRO-3 no process has the whole model, and nobody answers inside programs; name an "
            "answerer, such as server:MODEL@URL, or use ZeRO-2"
        )
    facts = {
        "kind": "qwen",
        "model": Path(found.source).name,
        "weights": folder_fingerprint(found.folder),
        "adapter": None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "frames": frames,
        "pixels": pixels,
    }
    loaded = Loaded(without_adapter(model), None, found.processor, frames, pixels, facts)
    return QwenBackbone.around(loaded, name=found.name)


def _programs(
    training: VideoGRPOConfig, found: Checkpoint, frames: int, pixels: int, state: PartialState
) -> Callable[[Any], dict[str, float]] | None:
    if not training.eval_questions:
        return None
    with state.main_process_first():
        held_out = load_held_out(training.eval_questions, limit=training.eval_limit, seed=training.seed)
    return ProgramEvaluation(
        held_out,
        found,
        frames=frames,
        pixels=pixels,
        modules=training.module_models,
        max_new_tokens=training.longest,
        log=Path(str(training.output_dir)) / "questions",
    )


def _told(trainer: VideoGRPOTrainer, rows: Sequence[PromptRow]) -> str:
    assert trainer.model is not None
    weights = sum(one.numel() for one in trainer.model.parameters() if one.requires_grad)
    kinds = {kind: sum(row.kind == kind for row in rows) for kind in dict.fromkeys(row.kind for row in rows)}
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return (
        f"{len(rows)} prompts ({told}) about {len({row.video for row in rows})} videos; {weights:,} weights"
    )


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


def _settings(argv: list[str]) -> tuple[VideoGRPOConfig, ModelConfig]:
    parser = TrlParser((VideoGRPOConfig, ModelConfig), prog="train/grpo.py", allow_abbrev=False)  # type: ignore[arg-type]
    try:
        training, model_settings = parser.parse_args_and_config(argv)
    except (ValueError, OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"train/grpo.py: {error}") from error
    return training, model_settings


if __name__ == "__main__":
    sys.exit(main())
