"""The stages that train a planner (VideoPro, section 3.6): its rows, SFT, GRPO, and a merged checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from videopro.cli import config_file, read_yaml
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Command, Stage, on_each_gpu
from videopro.data_synthesis.question_settings import QuestionSettings


def row_stages(road: Road) -> Iterator[Stage]:
    """Rows for SFT and prompts for GRPO, from a teacher or without one."""
    config = road.config
    if not config.makes_sft_rows and not (config.makes_grpo_rows and config.grpo_prompts == "teacher"):
        return
    command = road.command("synthesize", "synthesize", road.synthesis_settings())
    about = "questions as prompts, each with its oracle mode; no teacher"
    more = {} if config.has_teacher else {"does": about}
    yield road.stage("synthesize", *on_each_gpu(command, road.devices), in_parallel=road.gpus > 1, **more)
    if config.makes_sft_rows and not config.has_teacher:
        settings = {
            "model": config.model,
            "answerer": config.model,
            "data": str(road.output / "synthesis" / "grpo.jsonl"),
            "output": str(road.own_programs),
            "modules": dict(config.modules),
        }
        yield road.stage("rejection", road.command("rejection", "rejection", settings))


def training_stages(road: Road) -> Iterator[Stage]:
    """SFT, GRPO, and the last adapter as a plain checkpoint."""
    config, made = road.config, road.output / "synthesis"
    if config.trains_sft:
        rows = config.sft_data or str(made / "sft.jsonl" if config.has_teacher else road.own_programs)
        yield road.stage("sft", _training(road, "sft", rows))
    if config.trains_grpo:
        rows = config.grpo_data or str(made / "grpo.jsonl")
        if config.makes_grpo_rows and config.grpo_prompts == "planner":
            rows = str(road.output / "prompts" / "grpo.jsonl")
            yield road.stage("prompts", _prompts(road))
        more = {
            **({"adapter": road.after_sft} if road.after_sft else {}),
            **({"modules": dict(config.modules)} if config.modules else {}),
        }
        yield road.stage("grpo", _training(road, "grpo", rows, **more))
    adapter = road.after_grpo or road.after_sft
    if config.merge and adapter:
        arguments = ("--base", config.model, "--adapter", adapter, "--output", str(road.output / "merged"))
        yield road.stage("merge", Command("merge", arguments))


def _training(road: Road, kind: str, rows: str, **more: Any) -> Command:
    """A training: its config, what the reproduction changes of it, its rows and its output."""
    settings = {
        **read_yaml(config_file(Path(getattr(road.config, kind)), kind)),
        "model_name_or_path": road.config.model,
        **getattr(road.config, f"{kind}_settings"),
        **more,
        "train_data": rows,
        "output_dir": str(road.output / kind),
    }
    return road.launched(kind, kind, settings)


def _prompts(road: Road) -> Command:
    config, adapter = road.config, road.after_sft
    # Which questions are asked, and which must not be, is one decision for both stages.
    shared = {field.name for field in fields(QuestionSettings)}
    settings = {
        **{key: value for key, value in road.synthesis_settings().items() if key in shared},
        **({"adapter": adapter} if adapter else {}),
        **({"sft_data": config.sft_data} if config.sft_data else {}),
        "modules": dict(config.modules),
        "output": str(road.output / "prompts"),
    }
    return road.launched("prompts", "prompts", settings, trains=False)
