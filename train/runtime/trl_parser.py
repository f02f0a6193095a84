"""Code shared by the training commands: settings from flags and a YAML file, and the exit status."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeVar

from accelerate import PartialState
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
    ConfigError, with the nearest known name for an unknown flag or key."""
    program = f"videopro {command}"
    usage = f"{program} --config NAME|FILE [--SETTING VALUE ...]"
    # Its --help is our --help-all.
    parser = TrlParser((kind, ModelConfig), prog=program, usage=usage, allow_abbrev=False)  # type: ignore[arg-type]
    configs: list[str | None] = []
    flags: list[str] = []
    # Taken out: TRL's parser takes the path of a file alone, and would let a second one pass.
    words = iter(sys.argv[1:] if argv is None else argv)
    for word in words:
        flag, equals, value = ("--help" if word == "--help-all" else word).partition("=")
        if flag == "--config":
            configs.append(value if equals else next(words, None))
        else:
            flags.append(flag + equals + value)
    if len(configs) > 1:
        raise ConfigError(f"{program}: --config is set twice; pass one, and flags for other settings")
    if None in configs:
        raise ConfigError(f"{program}: --config needs a file, or the name of a shipped config")
    files = [config_file(name, command) for name in configs if name is not None]
    known = {option.name for cls in (kind, ModelConfig) for option in fields(cls)}

    def check(name: str, called: str, written: str) -> None:
        """Raise ConfigError for an unknown name. `called`: it, for the
        message; `written`: what stands before names there."""
        if name not in known:
            # All would be hundreds.
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {written + near[0]!r}?" if near else f"{program} --help lists all settings"
            raise ConfigError(f"{called}; {hint}")

    chosen = set()
    for flag in (word.partition("=")[0] for word in flags if word.startswith("--") and word != "--help"):
        # TRL's parser takes hyphens and underscores alike, and --no_NAME for a setting that is true.
        name = flag[2:].replace("-", "_")
        check(name.removeprefix("no_"), f"{program}: unknown argument {flag!r}", "--")
        chosen.add(name)
    for file in files:
        for key in read_yaml(file).keys() - {"env"}:
            check(key, f"{file}: unknown setting {key!r}", "")
            chosen.add(key)
    # accelerate's launcher sets the variable for configs/accelerate/zero2.yaml and zero3.yaml.
    if "deepspeed" in chosen or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        check_extra("deepspeed", "training under DeepSpeed", "deepspeed")
    try:
        config = [word for file in files for word in ("--config", str(file))]
        training, model = parser.parse_args_and_config([*flags, *config])
    except (ValueError, OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"{program}: {error}") from error
    return training, model


def run_command(train: Callable[[], object]) -> int:
    """Train. Returns the exit status, as `videopro.cli.process.exit_status` has it."""
    with exit_status("stopped; re-run the same command to resume from the last checkpoint") as status:
        train()
        # Threads of the group that are left at the interpreter's end abort a process of several now and then.
        PartialState().destroy_process_group()
    return status.code
