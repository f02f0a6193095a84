"""What a synthesis is known by: the settings and models that its records depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from videopro.benchmarks import Benchmark
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import RunError
from videopro.methods.planners import Planner
from videopro.modules import ModuleSettings
from videopro.runs import identity_difference

_DECIDING = (
    *("tau", "programs", "refinements", "seed", "subtitles", "subtitle_track", "without_family"),
    *("sft_share", "grpo_programs", "held_out_videos", "drop_modules"),
    *("reasoned_confidence", "nearest_intact"),
)


def synthesis_identity(config: SynthesisConfig, source: Benchmark) -> dict[str, Any]:
    """What decides the questions and how they are explored, besides the models."""
    return {
        "source": source.name,
        "split": source.split,
        "version": source.version,
        **{name: getattr(config, name) for name in _DECIDING},
    }


def full_identity(
    config: SynthesisConfig, identity: Mapping[str, Any], planner: Planner, modules: object, model: object
) -> dict[str, Any]:
    """The identity of a synthesis with its models and its teacher."""
    return {
        **identity,
        "teacher": {**planner.identity(), "prompts": _prompts(config)},
        "modules": modules,
        "model": model,
    }


def check_teacher(config: SynthesisConfig, folder: SynthesisFolder) -> None:
    """Compare the settings of the teacher and of the modules' models with those of the folder, without
    loading them. Raises RunError."""
    recorded, current = folder.settings(), as_mapping(config)
    teacher = recorded["identity"]["teacher"]
    names = {"temperature", "top_p", "max_new_tokens"} & teacher.keys()
    # What the preset stands for is in the other settings.
    names |= {option.name for option in fields(ModuleSettings)} - {"preset"}
    lines = identity_difference(
        {name: recorded[name] for name in names}
        | {"teacher": recorded["teacher"], "teacher_prompts": teacher["prompts"]},
        {name: current[name] for name in names}
        | {"teacher": config.teacher, "teacher_prompts": _prompts(config)},
    )
    if lines:
        raise RunError(
            f"{folder.path}: holds another synthesis; give another --output, or the settings of that one:\n  "
            + "\n  ".join(lines)
        )


def _prompts(config: SynthesisConfig) -> dict[str, str] | None:
    file = config.asked_prompts()
    return None if file is None else dict(file.texts)


def as_mapping(config: SynthesisConfig) -> dict[str, Any]:
    """The settings as YAML can hold them."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
        if key not in ("assemble_only", "redo_errors", "redo_changed", "plan")
    }
