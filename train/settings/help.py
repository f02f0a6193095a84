"""The --help of `videopro sft` and `videopro grpo`: VideoPro's settings, and those of TRL and transformers
that matter for a planner. Neither library is imported for it, which takes seconds; `--help-all` lists all
settings of both.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

from videopro.cli import COMMANDS, CONFIGS
from videopro.train.settings.grpo import GRPOSettings
from videopro.train.settings.planner_training import TrainingConfig
from videopro.train.settings.sft import SFTSettings

# By hand, since TRL is not imported here; tests/commands/test_help.py compares the names with the libraries.
MODEL = {
    "model_name_or_path": "base model: pocket, a hub name or a folder",
    "dtype": "dtype of the base weights, such as bfloat16",
    "attn_implementation": "attention implementation, such as sdpa or flash_attention_2",
    "load_in_4bit": "load the base in 4 bits (QLoRA)",
    "use_peft": "train a LoRA adapter; otherwise the whole model",
    "lora_r": "its rank",
    "lora_alpha": "its scale",
    "lora_dropout": "its dropout",
    "lora_target_modules": "layers to adapt, such as all-linear",
}
TRAINING = {
    "output_dir": "folder for the checkpoints and the result",
    "num_train_epochs": "epochs over the rows",
    "max_steps": "maximum steps; above 0, overrides epochs",
    "per_device_train_batch_size": "batch size per process",
    "gradient_accumulation_steps": "gradient accumulation steps",
    "gradient_checkpointing": "recompute layers in the backward pass, to save memory",
    "learning_rate": "peak learning rate",
    "lr_scheduler_type": "schedule, such as cosine or constant",
    "warmup_steps": "warm-up steps, or their share if below 1",
    "weight_decay": "of AdamW",
    "max_grad_norm": "maximum gradient norm, for clipping",
    "bf16": "mixed precision",
    "deepspeed": "DeepSpeed configuration file",
    "eval_strategy": "when to evaluate: no, steps or epoch",
    "eval_steps": "steps between evaluations",
    "logging_steps": "steps between log lines",
    "save_steps": "steps between checkpoints",
    "save_total_limit": "checkpoints to keep",
    "report_to": "trackers: wandb, trackio, tensorboard or none",
    "seed": "random seed",
    "use_cpu": "train on the CPU",
}
OF_STAGE: Mapping[str, Mapping[str, str]] = {
    "sft": {
        "padding_free": "pack the rows of a batch without padding",
        "completion_only_loss": "compute the loss on replies only",
    },
    "grpo": {
        "num_generations": "replies per prompt",
        "max_completion_length": "maximum reply length in tokens",
        "temperature": "of sampling",
        "beta": "weight of the KL term; 0: no reference model",
        "epsilon": "clipping range of the ratio",
        "loss_type": "loss, such as grpo, dr_grpo or dapo",
        "num_iterations": "updates on the same replies",
        "log_completions": "print some of the replies",
    },
}


# What --help shows first to last; a setting in none of them comes at the end.
GROUPS: Mapping[str, Sequence[str]] = {
    "Start with": (
        *("train_data", "adapter", "model_name_or_path", "output_dir", "eval_data", "eval_questions"),
        *("num_train_epochs", "max_steps", "learning_rate", "per_device_train_batch_size"),
        "gradient_accumulation_steps",
    ),
    "Rewards": (
        *("episodes", "tau", "final", "accuracy", "form", "reasoned_confidence", "answerer", "modules"),
        *("run_ahead", "reward_workers"),
    ),
    "GRPO": (*OF_STAGE["grpo"],),
    "Sampling": ("sampler", "vllm", "engine_gpus", "async_rollouts"),
    "Model": (*list(MODEL)[1:], "vision", "projector", "adapter_dtype"),
    "Prompts and videos": (
        *("kinds", "prompts", "prompt_video", "shared_prompt", "frames", "pixels", "video_marks"),
        *("frame_cache", "nearest_intact", "decode_workers"),
    ),
    "Evaluation": (
        *("eval_limit", "fallback", "eval_modules", "eval_max_new_tokens", "eval_strategy", "eval_steps"),
    ),
    "Memory and speed": (
        *("gradient_checkpointing", "checkpoint", "kept_features_gb", "padding_free"),
        *("bf16", "deepspeed"),
    ),
}


@dataclass(frozen=True)
class TrainingHelp:
    """The help of a training command."""

    command: str
    settings: type[TrainingConfig]

    def show_help(self, argv: Sequence[str]) -> None:
        """Print it."""
        name, about = f"videopro {self.command}", COMMANDS[self.command]
        shipped = ", ".join(sorted(file.stem for file in (CONFIGS / self.command).glob("*.yaml")))
        config = f"{self.command.upper()}Config"
        parser = ArgumentParser(
            prog=name,
            usage=f"{name} --config NAME|FILE [--SETTING VALUE ...]",
            description=f"{about.summary}\n\nFlags, or keys of a file (--config; shipped: {shipped}).",
            epilog=f"All settings of TRL's {config} and ModelConfig, with defaults: {name} --help-all\n\n"
            f"examples:\n{about.help_examples()}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        texts = {**MODEL, **TRAINING, **OF_STAGE[self.command]}
        metavars = dict[str, str]()
        for option in fields(self.settings):
            # A default of None stands for what the help text says of it.
            unset = option.default in (MISSING, None)
            note = "" if unset else f" (default: {option.default})".replace("%", "%%")
            texts[option.name] = f"{option.metadata['help']}{note}"
            if choices := option.metadata.get("choices"):
                metavars[option.name] = f"{{{','.join(choices)}}}"
        grouped = {name for names in GROUPS.values() for name in names}
        others = [name for name in texts if name not in grouped]
        for title, names in {**GROUPS, "Others": others}.items():
            if shown := [each for each in names if each in texts]:
                group = parser.add_argument_group(title)
                for each in shown:
                    group.add_argument(
                        f"--{each}", metavar=metavars.get(each, each.upper()), help=texts[each]
                    )
        parser.print_help()


SFT = TrainingHelp("sft", SFTSettings)
GRPO = TrainingHelp("grpo", GRPOSettings)
