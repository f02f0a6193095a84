"""Code shared by the training commands: settings from flags and a YAML file, and the exit status."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from transformers import TrainingArguments
from trl import ModelConfig, TrlParser

from videopro.cli import check_extra, config_file, exit_status, read_yaml
from videopro.errors import ConfigError

Settings = TypeVar("Settings", bound=TrainingArguments)


def read_settings(
    kind: type[Settings], command: str, argv: Sequence[str] | None = None
) -> tuple[Settings, ModelConfig]:
    """The settings of a run and of its model, parsed by TRL's parser. `command`: "sft" or "grpo"; `argv`:
    None takes this process's command line. `--config` takes a file, or the name of a shipped one. Raises
    ConfigError."""
    program = f"videopro {command}"
    usage = f"{program} --config NAME|FILE [--SETTING VALUE ...]"
    # Its --help has all of the libraries' settings; `videopro sft --help` those that matter.
    parser = TrlParser((kind, ModelConfig), prog=program, usage=usage, allow_abbrev=False)  # type: ignore[arg-type]
    flags = list(sys.argv[1:] if argv is None else argv)
    arguments = _with_config_file(flags, command)
    _check_names(kind, arguments, program)
    try:
        training, model = parser.parse_args_and_config(arguments)
    except (ValueError, OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"{program}: {error}") from error
    return training, model


def _with_config_file(arguments: list[str], command: str) -> list[str]:
    """The arguments with the name of a shipped config as its path, as TRL's parser takes it."""
    for index, argument in enumerate(arguments):
        flag, equals, name = argument.partition("=")
        if flag == "--config" and (equals or index + 1 < len(arguments)):
            remaining = arguments[index + 1 :] if equals else arguments[index + 2 :]
            named = name if equals else arguments[index + 1]
            return [*arguments[:index], "--config", str(config_file(named, command)), *remaining]
    return arguments


def _check_names(kind: type[Settings], arguments: Sequence[str], program: str) -> None:
    """Raise ConfigError for an unknown flag or an unknown key of the file, with the nearest known name, and
    for settings whose extra is not installed."""
    names = [option.name for cls in (kind, ModelConfig) for option in fields(cls)]
    flags = {f"--{name}" for name in names} | {f"--no_{name}" for name in names} | {"--config", "--help"}
    for argument in arguments:
        flag = argument.partition("=")[0]
        # TRL's parser takes hyphens and underscores alike.
        if flag.startswith("--") and flag.replace("-", "_").replace("__", "--", 1) not in flags:
            raise ConfigError(f"{program}: unknown argument {flag!r}; {_hint(flag, flags, program)}")
    chosen = {
        argument.partition("=")[0].removeprefix("--") for argument in arguments if argument.startswith("--")
    }
    if arguments[-1:] == ["--config"]:
        raise ConfigError(f"{program}: --config needs a file, or the name of a shipped config")
    if sum(argument.partition("=")[0] == "--config" for argument in arguments) > 1:
        raise ConfigError(f"{program}: --config is given twice; give one, and flags for what differs from it")
    if "--config" in arguments:
        file = arguments[arguments.index("--config") + 1]
        for key in read_yaml(Path(file)):
            if key not in names and key != "env":
                raise ConfigError(f"{file}: unknown setting {key!r}; {_hint(key, names, program)}")
            chosen.add(key)
    # accelerate's launcher sets the variable for configs/accelerate/zero2.yaml and zero3.yaml.
    if "deepspeed" in chosen or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        check_extra("deepspeed", "training under DeepSpeed", "deepspeed")


def _hint(name: str, names: Collection[str], program: str) -> str:
    """What an unknown flag or key may stand for. `names`: the known ones, in the same form."""
    # There are hundreds.
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f"did you mean {near[0]!r}?" if near else f"{program} --help lists all settings"


def run_command(train: Callable[[], object]) -> int:
    """Train. Returns the exit status, as `videopro.cli.process.exit_status` has it."""
    with exit_status("stopped; re-run the same command to resume from the last checkpoint") as status:
        train()
    return status.code
