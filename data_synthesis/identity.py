"""What a synthesis is known by: the settings and models that its records depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from videopro.backbones import recorded_spec
from videopro.benchmarks import Benchmark
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import RunError
from videopro.methods.planners import Planner
from videopro.methods.program import REASONED
from videopro.modules import ModuleSettings
from videopro.modules.models.encoders import AUTO_DTYPE, OLD_DTYPE
from videopro.runs import identity_difference
from videopro.traces import ReasonedRule


def as_it_began(config: SynthesisConfig, folder: SynthesisFolder) -> SynthesisConfig:
    """With the rule for reasoned letters and the precision of the clip encoder that the folder began with, if
    the command names none: in one of an earlier version the letters are guesses, and the precision float32.
    A new folder's precision is that of this machine."""
    recorded = folder.settings()["identity"] if folder.config.exists() else None
    if config.reasoned_confidence is None:
        rule: ReasonedRule = REASONED
        if recorded is not None:
            rule = recorded["synthesis"].get("reasoned_confidence", "none")
        config = replace(config, reasoned_confidence=rule)
    if config.encoder_dtype == AUTO_DTYPE:
        dtype = config.encoder_precision
        if recorded is not None:
            dtype = recorded["modules"].get("encoder_dtype", OLD_DTYPE)
        config = replace(config, encoder_dtype=dtype)
    return config


def synthesis_identity(config: SynthesisConfig, source: Benchmark) -> dict[str, Any]:
    """What decides the questions and how they are explored, besides the models."""
    names = ("tau", "programs", "refinements", "seed", "subtitles", "without_family")
    # Only if they are set, so that older folders keep their keys.
    newer = ("subtitle_track", "sft_share", "grpo_programs", "held_out_videos", "drop_modules")
    rule = {} if config.reasoned_confidence == "none" else {"reasoned_confidence": config.reasoned_confidence}
    return {
        "source": source.name,
        "split": source.split,
        "version": source.version,
        **{name: getattr(config, name) for name in names},
        **{name: value for name in newer if (value := getattr(config, name)) is not None},
        **rule,
        **({"nearest_intact": config.nearest_intact} if config.nearest_intact else {}),
    }


def full_identity(
    config: SynthesisConfig, identity: Mapping[str, Any], planner: Planner, modules: object, model: object
) -> dict[str, Any]:
    """The identity of a synthesis with its models and its teacher."""
    prompt_file = config.asked_prompts()
    return {
        **identity,
        # The prompts only if they are not ours, so that older folders keep their keys.
        "teacher": planner.identity() | ({} if prompt_file is None else {"prompts": dict(prompt_file.texts)}),
        "modules": modules,
        "model": model,
    }


def check_teacher(config: SynthesisConfig, folder: SynthesisFolder) -> None:
    """Compare the settings of the teacher and of the modules' models with those of the folder, without
    loading them. Raises RunError."""
    recorded, current = folder.settings(), as_mapping(config)
    sampling = {"temperature", "top_p", "max_new_tokens"} & recorded["identity"]["teacher"].keys()
    # What the preset stands for is in the other settings. A folder of an earlier version lacks newer ones.
    defaults = {option.name: option.default for option in fields(ModuleSettings) if option.name != "preset"}
    defaults["encoder_dtype"] = OLD_DTYPE
    names = ("teacher", *sorted(sampling), *defaults)
    prompt_file = config.asked_prompts()
    texts = {"teacher_prompts": recorded["identity"]["teacher"].get("prompts")}
    lines = identity_difference(
        {name: recorded.get(name, defaults.get(name)) for name in names}
        | {"teacher": _spec(recorded["teacher"])}
        | texts,
        {name: current[name] for name in names}
        | {"teacher": _spec(config.teacher)}
        | {"teacher_prompts": None if prompt_file is None else dict(prompt_file.texts)},
    )
    if lines:
        raise RunError(
            f"{folder.path}: holds another synthesis; give another --output, or the settings of that one:\n  "
            + "\n  ".join(lines)
        )


def _spec(teacher: str | None) -> str | None:
    return None if teacher is None else recorded_spec(teacher)


def as_mapping(config: SynthesisConfig) -> dict[str, Any]:
    """The settings as YAML can hold them."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
        if key not in ("assemble_only", "redo_errors", "redo_changed", "plan")
    }
