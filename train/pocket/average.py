"""Averages the weights of two checkpoints of one pocket model, which keeps most of what a later stage of its
training gained and forgets less.

    python -m videopro.train.pocket.average F/writing2/model F/all/model --share 0.75 --output F/average

`--share` is the weight of the second folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3VLForConditionalGeneration

from videopro.backbones import ModelRecord, library_versions, read_model_record, write_model_record
from videopro.cli import CommandLine, exit_status, setting
from videopro.errors import ConfigError
from videopro.train.pocket import architecture as checkpoint


@dataclass(frozen=True)
class AverageSettings:
    """The two models, and their weights."""

    first: Path = field(metadata=setting("folder of a model", positional=True))
    second: Path = field(metadata=setting("folder of another model", positional=True))
    share: float = field(metadata=setting("weight of the second folder, 0 to 1"))
    output: Path = field(metadata=setting("folder for the averaged model"))


COMMAND = CommandLine(
    "videopro.train.pocket.average",
    AverageSettings,
    summary="Average the weights of two checkpoints of one pocket model.",
)


def average(first: Path, second: Path, share: float, output: Path) -> None:
    """Write the model whose weights are (1 - share) of `first`'s and `share` of `second`'s, in bf16, with
    what both record. Raises ConfigError if they record different trainings."""
    record = _shared_record(first, second)
    # In fp32: in bf16, a small difference between the two would be lost in rounding.
    models: list[Any] = [
        Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        for folder in (first, second)
    ]
    theirs = models[1].state_dict()
    for name, weight in models[0].state_dict().items():
        # Buffers of integers are the same in both.
        if weight.is_floating_point():
            weight.lerp_(theirs[name], share)
    checkpoint.save(models[0].bfloat16(), checkpoint.build_processor(), output)
    write_model_record(output, replace(record, versions=library_versions()))


def _shared_record(first: Path, second: Path) -> ModelRecord:
    """The record of both; who wrote it may differ, and which model their trainings began with."""
    records = [read_model_record(folder) for folder in (first, second)]
    base = records[0].base if records[0].base == records[1].base else None
    mine, theirs = (replace(record, base=base, versions={}) for record in records)
    for name in ("frames", "pixels", "planner"):
        if getattr(mine, name) != getattr(theirs, name):
            raise ConfigError(
                f"{second}: records {name} {getattr(theirs, name)}, and {first} {getattr(mine, name)}; "
                "average two models that were trained alike"
            )
    return mine


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; the output is incomplete") as status:
        settings = COMMAND.parse(argv)
        if not 0 <= settings.share <= 1:
            raise ConfigError(f"--share is {settings.share}; it must be from 0 to 1")
        average(settings.first, settings.second, settings.share, settings.output)
    return status.code


if __name__ == "__main__":
    sys.exit(main())
