"""docs/results/deviations.md: every setting that its table names to restore something is one that a command
takes."""

import re
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

import pytest

from tests.support import ROOT
from videopro import methods
from videopro.backbones import BackboneConfig
from videopro.cli import COMMANDS, parse_yaml
from videopro.commands.infer import COMMAND as INFER
from videopro.errors import ConfigError
from videopro.train.finetune import VideoSFTConfig
from videopro.train.rewards import RewardRow
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import read_settings

PAGE = ROOT / "docs" / "results" / "deviations.md"
INFER_NEEDS = ["--benchmark", "pocket", "--method", "videopro", "--model", "pocket", "--output", "run"]
SYNTHESIZE_NEEDS = ["--config", "cg_bench", "--root", "cg_bench", "--output", "run"]
# Two rows a pass on one process: as many passes as make a group of eight.
TRAINERS_NEED = ["--output_dir", "run", "--use_cpu", "true", "--bf16", "false"]
TRAINERS_NEED += ["--gradient_accumulation_steps", "8"]
TRAINERS = {"sft": VideoSFTConfig, "grpo": VideoGRPOConfig}
# What is named there and is no setting: the release's file, a field of rows, a method.
OTHERS = {"train_sft.jsonl", "oracle_mode", "native"}


def restoring() -> list[tuple[str, str]]:
    """The rows with a difference: their name, and what restores the paper's or the release's."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and cells[5] not in ("", "to restore", "---"):
            rows.append((cells[0], cells[5]))
    return rows


def named() -> list[str]:
    """What stands in backticks there."""
    return sorted({span for _, cell in restoring() for span in re.findall(r"`([^`]+)`", cell)})


def flags_of(command: str) -> set[str]:
    """The flags of a command."""
    line = import_module(COMMANDS[command].module).COMMAND
    return {name for argument in line.app().assemble_argument_collection() for name in argument.names}


def check_options(words: Sequence[str]) -> None:
    """Raise ConfigError for words that are no `--options` of methods of programs."""
    options = {key: parse_yaml(value) for key, _, value in (word.partition("=") for word in words)}
    methods.create("videopro", options)


def check_infer(words: Sequence[str]) -> None:
    """Raise ConfigError for flags that `videopro infer` does not take, or whose values it does not take."""
    if all(word.startswith("--") for word in words):
        unknown = set(words) - flags_of("infer")
        if unknown:
            raise ConfigError(f"unknown: {unknown}")
        return
    # A flag that is given twice has its last value.
    given: Any = INFER.parse([*INFER_NEEDS, *words])
    methods.create(given.method, {key: value for key, value in given.options.items() if key != "prompts"})
    unknown = set(given.backbone) - {setting.name for setting in fields(BackboneConfig)}
    if unknown:
        raise ConfigError(f"unknown: {unknown}")


def check_command(name: str, words: Sequence[str]) -> None:
    """Raise ConfigError for flags that a command does not take, or whose values it does not take."""
    if name in TRAINERS:
        read_settings(TRAINERS[name], name, [*words, *TRAINERS_NEED])
    elif name == "synthesize":
        import_module(COMMANDS[name].module).COMMAND.parse([*SYNTHESIZE_NEEDS, *words])
    elif words:
        raise AssertionError(f"videopro {name}: this test does not know what else it needs")
    else:
        assert name in COMMANDS


def check(span: str) -> None:
    """Raise ConfigError or AssertionError unless this is something that can be given."""
    words = span.split()
    if words[0] == "videopro":
        check_command(words[1], words[2:])
    elif words[0].startswith("--"):
        check_infer(words)
    elif "=" in span:
        check_options(words)
    elif "/" in span:
        assert (ROOT / span).exists()
    else:
        assert span in OTHERS


def test_every_row_says_how_to_restore_theirs() -> None:
    rows = restoring()
    assert len(rows) > 50
    plain = ("none", "not needed", "the same")
    assert [row for row, cell in rows if "`" not in cell and not cell.startswith(plain)] == []
    assert "oracle_mode" in {field.name for field in fields(RewardRow)}


@pytest.mark.parametrize("span", named())
def test_what_restores_something_can_be_given(span: str) -> None:
    check(span)
