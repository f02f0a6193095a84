"""The stages that train a planner (VideoPro, section 3.6): its rows, SFT, GRPO, and a merged checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from videopro.cli import config_file, read_yaml
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Command, Stage, on_each_gpu
from videopro.data_synthesis.question_settings import QuestionSettings


def row_stages(road: Road) -> Iterator[Stage]:
    """Rows for SFT and prompts for GRPO, from a teacher or without one."""
    config, folder = road.config, road.output / "synthesis"
    if not config.makes_sft_rows and not (config.makes_grpo_rows and config.grpo_prompts == "teacher"):
        return
    command = road.command("synthesize", "synthesize", road.synthesis_settings())
    yield Stage(
        "synthesize",
        "rows for SFT and prompts for GRPO from a teacher's programs"
        if config.has_teacher
        else "questions as prompts, each with its oracle mode; no teacher",
        on_each_gpu(command, road.devices),
        writes=(folder / "sft.jsonl", folder / "grpo.jsonl"),
        in_parallel=road.gpus > 1,
    )
    if config.makes_sft_rows and not config.has_teacher:
        settings = {
            "model": config.model,
            "answerer": config.model,
            "data": str(folder / "grpo.jsonl"),
            "output": str(road.own_programs),
            "modules": dict(config.modules),
        }
        yield Stage(
            "rejection",
            "rows for SFT: the backbone's own correct programs",
            (road.command("rejection", "rejection", settings),),
            after=("synthesize",),
            writes=(road.own_programs,),
        )


def training_stages(road: Road) -> Iterator[Stage]:
    """SFT, GRPO, and the last adapter as a plain checkpoint."""
    config = road.config
    if config.trains_sft:
        synthesized = road.output / "synthesis" / "sft.jsonl" if config.has_teacher else road.own_programs
        rows = config.sft_data or str(synthesized)
        settings = {
            **read_yaml(config_file(Path(config.sft), "sft")),
            "model_name_or_path": config.model,
            **config.sft_settings,
            "train_data": rows,
            "output_dir": str(road.output / "sft"),
        }
        yield Stage(
            "sft",
            "fine-tune an adapter on the rows",
            (road.launched("sft", "sft", settings),),
            after=("synthesize", "rejection"),
            writes=(road.output / "sft" / "adapter_config.json",),
        )
    if config.trains_grpo:
        rows = config.grpo_data or str(road.output / "synthesis" / "grpo.jsonl")
        if config.makes_grpo_rows and config.grpo_prompts == "planner":
            prompts = road.output / "prompts"
            rows = str(prompts / "grpo.jsonl")
            yield Stage(
                "prompts",
                "prompts for GRPO: questions, and wrong or uncertain answers of the planner",
                (_prompts(road, "prompts", prompts, road.after_sft),),
                after=("sft",),
                writes=(prompts / "grpo.jsonl",),
            )
        settings = {
            **read_yaml(config_file(Path(config.grpo), "grpo")),
            "model_name_or_path": config.model,
            **config.grpo_settings,
            **({"adapter": road.after_sft} if road.after_sft else {}),
            **({"modules": dict(config.modules)} if config.modules else {}),
            "train_data": rows,
            "output_dir": str(road.output / "grpo"),
        }
        yield Stage(
            "grpo",
            "train with rewards for correct answers (Eq. 3)",
            (road.launched("grpo", "grpo", settings),),
            after=("synthesize", "sft", "prompts"),
            writes=(road.output / "grpo" / "adapter_config.json",),
        )
    adapter = road.after_grpo or road.after_sft
    if config.merge and adapter:
        folder = road.output / "merged"
        arguments = ("--base", config.model, "--adapter", adapter, "--output", str(folder))
        yield Stage(
            "merge",
            "merge the last adapter into a plain checkpoint",
            (Command("merge", arguments),),
            after=("sft", "grpo"),
            writes=(folder / "config.json",),
        )


def _prompts(road: Road, name: str, folder: Path, adapter: str = "") -> Command:
    config = road.config
    # Which questions are asked, and which must not be, is one decision for both stages.
    shared = {field.name for field in fields(QuestionSettings)}
    settings = {
        **{key: value for key, value in road.synthesis_settings().items() if key in shared},
        **({"adapter": adapter} if adapter else {}),
        **({"sft_data": config.sft_data} if config.sft_data else {}),
        "modules": dict(config.modules),
        "output": str(folder),
    }
    return road.launched("prompts", name, settings, trains=False)
