"""The stages of a shipped reproduction, without a machine or files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.commands.reproduce.command import COMMAND
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage


def road(tmp_path: Path, config: str = "paper", gpus: int = 8, **changes: Any) -> Road:
    """The road of a shipped config on a machine with so many GPUs."""
    given = COMMAND.parse(["--config", config, "--output", str(tmp_path / "out")])
    return Road(replace(given, gpus=None, **changes), [str(number) for number in range(gpus)])


def names(stages: list[Stage]) -> list[str]:
    """The stages' names."""
    return [stage.name for stage in stages]


def by_name(road: Road) -> dict[str, Stage]:
    """Its stages by their names."""
    return {stage.name: stage for stage in stages_of(road)}
