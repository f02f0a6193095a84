"""Code shared by the training commands: settings from flags and a YAML file, and the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from transformers import TrainingArguments
from trl import ModelConfig, TrlParser

from videopro.cli import exit_status
from videopro.errors import ConfigError

Settings = TypeVar("Settings", bound=TrainingArguments)


def read_settings(
    kind: type[Settings], program: str, argv: Sequence[str] | None = None
) -> tuple[Settings, ModelConfig]:
    """The settings of a run and of its model, parsed by TRL's parser. `argv`: None takes this process's
    command line. Raises ConfigError."""
    parser = TrlParser((kind, ModelConfig), prog=program, allow_abbrev=False)  # type: ignore[arg-type]
    try:
        training, model = parser.parse_args_and_config(sys.argv[1:] if argv is None else list(argv))
    except (ValueError, OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"{program}: {error}") from error
    return training, model


def run_command(train: Callable[[], object]) -> int:
    """Train. Returns the exit status, as `videopro.cli.exit_status` has it."""
    with exit_status("stopped; re-run the same command to resume from the last checkpoint") as status:
        train()
    return status.code
