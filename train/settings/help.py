"""What --help of sft and grpo says around the flags, and their help where TRL is not installed."""

from __future__ import annotations

from argparse import ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any

from videopro.cli import COMMANDS, CONFIGS
from videopro.train.settings.grpo import GRPOSettings
from videopro.train.settings.planner_training import TrainingConfig
from videopro.train.settings.sft import SFTSettings

_SETTINGS: dict[str, type[TrainingConfig]] = {"sft": SFTSettings, "grpo": GRPOSettings}


class _Help(ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the examples' lines."""


def parser_texts(command: str) -> dict[str, Any]:
    """The arguments of an argparse parser that make the help of "sft" or "grpo"."""
    about, program = COMMANDS[command], f"videopro {command}"
    shipped = ", ".join(sorted(file.stem for file in (CONFIGS / command).glob("*.yaml")))
    return {
        "prog": program,
        "usage": f"{program} --config NAME|FILE [--SETTING VALUE ...]",
        "description": (
            f"{about.summary}\n\nTakes our settings, TRL's and transformers', by flags and YAML (--config, "
            f"shipped: {shipped})."
        ),
        "epilog": f"examples:\n{about.help_examples()}",
        "formatter_class": _Help,
        "allow_abbrev": False,
    }


def help_without_extra(command: str) -> Callable[[], None]:
    """Prints the help of "sft" or "grpo" with our own settings only."""

    def show() -> None:
        from transformers import HfArgumentParser

        texts = parser_texts(command)
        texts["description"] += (
            f'\n\nOur own settings. With the extra "train" installed, this lists those of TRL\'s '
            f"{command.upper()}Config and ModelConfig too, such as output_dir and model_name_or_path."
        )
        print(HfArgumentParser(_SETTINGS[command], **texts).format_help())  # type: ignore[arg-type]

    return show
