"""A synthesis folder: its records (records.jsonl, config.yaml, work/), the datasets made from them, and the
settings and models that these depend on, by which the folder is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from videopro.benchmarks import Benchmark
from videopro.cli import read_yaml
from videopro.data_synthesis.datasets import GRPO, HELD_OUT, SFT
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError, RunError
from videopro.modules import ModuleSettings
from videopro.runs import RunFolder, identity_difference
from videopro.storage import parse_json, write_file


class SynthesisFolder(RunFolder):
    """A run's folder whose traces are the records of a synthesis."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.traces = path / "records.jsonl"
        self.replies = self.work / "replies.jsonl"
        self.plan_json = self.work / "plan.json"
        self.sft, self.grpo = path / SFT, path / GRPO
        self.held_out = path / HELD_OUT

    def plan(self) -> dict[str, Any] | None:
        """The plan that was made before its questions were asked; None: none were."""
        try:
            plan = parse_json(self.plan_json.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{self.plan_json}: cannot be read ({error}); delete it") from error
        return dict(plan)

    def keep_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep a plan, unless the folder has one of the same questions and limits, which was made before
        anything was spent on them. Raises RunError."""
        before = self.plan()
        if before is not None and before.get("asks") == plan["asks"]:
            return
        write_file(self.plan_json, json.dumps(plan, indent=1, ensure_ascii=False) + "\n")

    def settings(self) -> dict[str, Any]:
        """The contents of config.yaml. Raises RunError for a folder without one, or of another kind."""
        try:
            content = read_yaml(self.config)
        except ConfigError as error:
            raise RunError(f"{self.path}: is not a synthesis folder ({error})") from error
        if "synthesis" not in content.get("identity", {}):
            raise RunError(
                f"{self.path}: is not a synthesis folder; its config.yaml belongs to another command"
            )
        return content


_DECIDING = (
    *("tau", "programs", "refinements", "seed", "subtitles", "subtitle_track"),
    *("sft_share", "grpo_programs", "held_out_videos", "drop_modules"),
    *("reasoned_confidence", "nearest_intact"),
)


def synthesis_identity(config: SynthesisConfig, source: Benchmark) -> dict[str, Any]:
    """What decides the questions and how they are explored, except the models."""
    return {
        "source": source.name,
        "split": source.split,
        "version": source.version,
        **{name: getattr(config, name) for name in _DECIDING},
    }


def check_teacher(config: SynthesisConfig, folder: SynthesisFolder) -> None:
    """Compare the settings of the teacher and of the modules' models with those of the folder, without
    loading them. Raises RunError."""
    recorded, current = folder.settings(), as_mapping(config)
    names = {"teacher"} | ({"temperature", "max_new_tokens"} & recorded["identity"]["teacher"].keys())
    # What the preset stands for is in the other settings.
    names |= {option.name for option in fields(ModuleSettings)} - {"preset"}
    lines = identity_difference(
        {name: recorded[name] for name in names}, {name: current[name] for name in names}
    )
    if lines:
        raise RunError(
            f"{folder.path}: holds another synthesis; pass another --output, or its settings:\n  "
            + "\n  ".join(lines)
        )


def as_mapping(config: SynthesisConfig) -> dict[str, Any]:
    """The settings as YAML can hold them."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
        # These ask for something once, which a resumed synthesis must not repeat.
        if key not in ("assemble_only", "redo_errors", "redo_changed", "plan")
    }
