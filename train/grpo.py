"""Reinforces a planner with GRPO: runs the programs that it samples, and rewards right answers (section 3.6
and Eq. 3, training stage 2).

    accelerate launch train/grpo.py --config configs/grpo/pocket.yaml --train_data grpo.jsonl --output_dir RUN

Flags and the YAML file take every setting of `videopro.train.settings`, of TRL's GRPOConfig and of its
ModelConfig. Starts from an adapter (`adapter`), or with a new one on a plain model or merged checkpoint.
Re-run the same command to resume from the last checkpoint. `output_dir` gets the adapter (or, without
`use_peft`, the model), the record of how it was made, and every program that was run (`programs.jsonl`).
"""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# First: hides what the libraries below print while they are imported.
import videopro  # noqa: F401

# isort: split
from accelerate import PartialState
from transformers import PreTrainedModel, TrainerCallback
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.backbones import Backbone, load_backbone, own_model, read_spec
from videopro.backbones.qwen import QwenBackbone
from videopro.cli import build_settings, needs_extra
from videopro.errors import ConfigError
from videopro.modules import ModuleModels, ModuleSettings, json_flag
from videopro.train.settings import TWO_TURN, VLLM

with needs_extra("train", "videopro grpo", __name__):
    from trl import ModelConfig

    from videopro.train.rewards import ProgramRewards
    from videopro.train.rl import (
        EngineSampler,
        GRPORow,
        PromptEncoder,
        RefinementTurns,
        TrainingEngines,
        VideoGRPOConfig,
        VideoGRPOTrainer,
        answering_engine,
        as_dataset,
        read_grpo_rows,
        training_engines,
    )
    from videopro.train.runtime import (
        TrainingRows,
        TrainingSetup,
        coverage_line,
        in_memory,
        load_trainable,
        overlap_warning,
        put_trained,
        read_settings,
        run_command,
        run_training,
        sole_training,
        without_adapter,
    )


def train(
    training: VideoGRPOConfig, model_settings: ModelConfig, *, callbacks: Sequence[TrainerCallback] = ()
) -> VideoGRPOTrainer:
    """One run, from files to a trained adapter; `callbacks`: transformers callbacks. Raises VideoProError for
    errors the user can fix."""
    start = TrainingSetup.of(training, model_settings)
    output = Path(str(training.output_dir))
    is_main = PartialState().is_main_process

    # The rows; their videos are decoded once
    read = functools.partial(read_grpo_rows, kinds=training.kinds, prompt_video=training.prompt_video)
    rows = TrainingRows.read(training, read)
    rows = rows.tokenized(lambda row: len(start.inputs.text(row.text, system=row.system).ids))
    if is_main and (warning := overlap_warning(start.trained_videos(), rows.train, start.who)):
        print(warning, file=sys.stderr)
    frames = start.frame_cache(training)
    if training.prompt_video:
        rows = rows.decoded(frames, training.decode_workers)
    replies: Any = training.generation_batch_size
    if len(rows.train) < (needed := replies // training.num_generations):
        # TRL would make no step, and the run would end untrained.
        raise ConfigError(
            f"{len(rows.train)} prompts, but a step takes {needed}; lower gradient_accumulation_steps"
        )

    with ExitStack() as opened:
        opened.enter_context(sole_training(output))
        engines = None
        if training.sampler == VLLM:
            # Before the model is loaded: vLLM measures the memory that is free.
            engines = opened.enter_context(training_engines(training, model_settings, start))

        # The policy: an adapter to continue, a new one, or the language model's own weights
        model = load_trainable(start.checkpoint, model_settings)
        # Quantized weights were loaded onto their device and cannot be moved.
        if not model_settings.load_in_4bit and not model_settings.load_in_8bit:
            model.to(training.device)  # type: ignore[arg-type]
        # Before an adapter is added: the answering model shares the weights of the base alone.
        answerer = _answerer(training, model_settings, start, model, engines)
        tuned, lora = put_trained(
            model, model_settings, ["language"], adapter=start.adapter, base=start.checkpoint.name
        )

        # Rewards and evaluation
        settings = build_settings(ModuleSettings, training.mapping("modules"), "modules")
        programs = output / "programs.jsonl"
        rewards = ProgramRewards(
            answerer,
            modules=ModuleModels(settings, answering=own_model(answerer), flag=json_flag("modules")),
            log=programs,
            workers=training.reward_workers,
            accuracy=training.accuracy,
            final=training.final,
            form=training.form,
            reasoned=training.reasoned_confidence,
            nearest_intact=training.nearest_intact,
        )
        opened.enter_context(rewards)
        training.reward_weights = list(rewards.weights)
        next_turn = None
        if training.episodes == TWO_TURN:
            next_turn = RefinementTurns(rewards, training.tau, start.prompts, clip_times=settings.clip_times)
        banned = start.inputs.visual_tokens()

        def make_prompts(run: Any, frozen: bool) -> PromptEncoder:
            kept_bytes = int(training.kept_features_gb * 1e9)
            return PromptEncoder(start.inputs, frames, run, frozen=frozen, kept_bytes=kept_bytes)

        def make_sampler(policy: Any, ends: Sequence[int]) -> EngineSampler:
            assert engines is not None
            decode = start.inputs.tokenizer.decode
            sampler = EngineSampler(
                engines, policy, frames, pixels=start.pixels, banned=banned, ends=ends, decode=decode
            )
            opened.callback(sampler.close)
            return sampler

        trainer = VideoGRPOTrainer(
            model=tuned,
            args=training,
            reward_funcs=rewards.functions,
            train_dataset=as_dataset(rows.train),
            # Empty: only programs are evaluated.
            eval_dataset=(as_dataset(rows.held_out) if rows.held_out else {})
            if training.eval_strategy != "no"
            else None,
            processing_class=start.checkpoint.processor,
            peft_config=lora,
            callbacks=list(callbacks),
            make_prompts=make_prompts,
            make_sampler=make_sampler if engines is not None else None,
            banned=banned,
            programs=start.evaluation(training, rows.reference),
            prefetcher=rewards if training.run_ahead else None,
            next_turn=next_turn,
            logs=[programs],
        )
        if is_main:
            trainer.accelerator.print(_startup_line(trainer, rows.train))
        run_training(trainer, model_settings, start, rows)
        # Each process has its own rows.
        for line in rewards.left_out_lines:
            print(line, file=sys.stderr)
    if is_main:
        # TRL's copy of the initial adapter, for the KL term.
        shutil.rmtree(output / "ref", ignore_errors=True)
        if warning := _nothing_learned(trainer.state.log_history):
            print(warning, file=sys.stderr)
    return trainer


def _answerer(
    training: VideoGRPOConfig,
    model_settings: ModelConfig,
    start: TrainingSetup,
    model: PreTrainedModel,
    engines: TrainingEngines | None,
) -> Backbone:
    """The backbone that answers inside programs. Call it before an adapter is added to `model`."""
    planner = start.checkpoint.planner
    named = training.answerer or (planner.base if planner is not None else None)
    if named:
        marks = start.checkpoint.video_marks
        spec = read_spec(named, frames=start.frames, pixels=start.pixels, video_marks=marks)
        if spec.kind == "qwen":
            spec = spec.but(device_map=str(training.device))
        return load_backbone(spec)
    if engines is not None:
        return answering_engine(engines, start)
    if not (start.adapter or model_settings.use_peft):
        raise ConfigError(
            "all weights are trained, so no frozen model is left to answer inside programs; set answerer to "
            "the base model or server:MODEL@URL"
        )
    if is_deepspeed_zero3_enabled():
        raise ConfigError(
            "under ZeRO-3 no process holds the whole model to answer inside programs; set answerer (such as "
            "server:MODEL@URL), set sampler: vllm, whose engine answers too, or use ZeRO-2"
        )
    loaded = in_memory(start.checkpoint, without_adapter(model), frames=start.frames, pixels=start.pixels)
    return QwenBackbone.from_loaded(loaded, name=start.checkpoint.name, concurrent=True)


def _startup_line(trainer: VideoGRPOTrainer, rows: Sequence[GRPORow]) -> str:
    assert trainer.model is not None
    weights = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad)
    kinds = {kind: sum(row.kind == kind for row in rows) for kind in dict.fromkeys(row.kind for row in rows)}
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    line = (
        f"{len(rows)} prompts ({counts}) about {len({row.video for row in rows})} videos; training "
        f"{weights:,} weights; {coverage_line(trainer.model)}"
    )
    notes = [
        (sum(row.oracle_mode is None for row in rows), "have no oracle mode, so no mode reward"),
        (
            sum(row.system is not None or bool(row.before) for row in rows),
            "have a system turn or text before the video: only prompts with the same start share a pass, and "
            "a refinement in a two-turn episode, which starts with the video, runs separately",
        ),
    ]
    return "\n".join([line, *(f"{count} of them {note}" for count, note in notes if count)])


_NOTHING_LEARNED = {
    "reward": "no reply earned a reward in any logged step; programs.jsonl has every program and its error",
    "grad_norm": "all gradients were 0 in every logged step, as when equal rewards go to all replies of a "
    "group; raise num_generations or temperature, or train on other prompts",
}


def _nothing_learned(history: Sequence[dict[str, float]]) -> str | None:
    """The warning at the end of a run that taught the policy nothing; None if it did. `history`: the
    trainer's log."""
    steps = [line for line in history if "reward" in line]
    for name, problem in _NOTHING_LEARNED.items():
        if steps and not any(line.get(name, 1) > 0 for line in steps):
            return f"warning: {problem}"
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    return run_command(lambda: train(*read_settings(VideoGRPOConfig, "grpo", argv)))


if __name__ == "__main__":
    sys.exit(main())
