"""videopro prompts: make prompts for GRPO without a teacher, or add oracle modes to rows.

    videopro prompts --source cg_bench --root DIR --model MODEL --adapter runs/sft --output runs/prompts
    videopro prompts --rows train_grpo.jsonl --model Qwen/Qwen3-VL-8B-Instruct --output runs/modes

Runs the model (without the adapter) and the planner like `videopro infer`, into OUTPUT/native and
OUTPUT/planner, and makes OUTPUT/grpo.jsonl and its card from these runs. Re-run the same command to resume.
The planner is an adapter, or a model made by videopro merge, whose base then answers directly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from videopro.backbones import Backbone, library_versions, load_backbone
from videopro.benchmarks import Benchmark
from videopro.cli import exit_status, needs_extra, read_yaml
from videopro.commands.prompts.planner import (
    NATIVE,
    PLANNER,
    AskedPlanner,
    AskedRuns,
    as_modules_ask,
    modules_of,
    read_planner,
)
from videopro.commands.prompts.settings import PROMPTS, PromptsConfig
from videopro.data_synthesis.card import write_card
from videopro.data_synthesis.datasets import GRPO, assemble, limited, write_rows
from videopro.data_synthesis.decontamination import EvaluationVideo, EvaluationVideos, add_rows
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.planner_prompts import ALL_FOR_GRPO, joined, prompts_card, prompts_card_text
from videopro.errors import ConfigError
from videopro.runs import RunFolder

COMMAND = PROMPTS

with needs_extra("train", "videopro prompts", __name__):
    from videopro.commands.prompts.oracle_modes import fill_oracle_modes
    from videopro.train.runtime import RECORD, recorded_videos


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status of `videopro.infer`; `load` as there."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        if config.rows is not None:
            fill_oracle_modes(config, load=load)
        else:
            prompts_from_questions(config, load=load)
    return status.code


def prompts_from_questions(
    config: PromptsConfig, *, load: Callable[..., Backbone] = load_backbone
) -> dict[str, Any] | None:
    """Ask the questions, write the rows and the card, and return the card (None on ranks above 0). Raises
    VideoProError."""
    planner = read_planner(config)
    trained = _trained_videos(config, planner)
    file, reference = planner.prompt_file(config), planner.reference(config)
    source, selection = config.questions()
    guard = DecontaminationGuard(config, source, trained)
    try:
        items = guard.allowed(selection, config.limit, config.ids)
    except ConfigError as error:
        if not trained or selection.filters.items:
            raise
        raise ConfigError(
            f"{error}, or set --sft-videos keep to include the videos that the planner was fine-tuned on"
        ) from error
    # The positions of options are part of a question: another seed asks other questions.
    benchmark = as_modules_ask(selection.benchmark, f"options in an order drawn from seed {config.seed}")
    runs = AskedRuns(config, planner, benchmark, items, load)
    runs.check(NATIVE, PLANNER)
    native, planned = runs.ask(NATIVE), runs.ask(PLANNER)
    if int(os.environ.get("RANK", "0")) > 0:
        return None
    modules = modules_of(planned, RunFolder(config.output / PLANNER).traces, reference)
    records, missing = joined(native, planned, None if reference.form == "none" else modules)
    datasets = assemble(
        records,
        tau=config.tau,
        source=source.name,
        folder=config.output,
        excluded=guard.excluded,
        seeds=guard.seeds,
        skip=guard.skip,
        held_out=guard.held_out,
        split=ALL_FOR_GRPO,
        prompt_file=file,
        reference=reference,
        subtitle_track=config.subtitle_track,
    )
    datasets = replace(datasets, rejected=datasets.rejected + missing)
    datasets = limited(datasets, sft=None, grpo=config.grpo_rows, seed=config.seed)
    card = prompts_card(
        records,
        datasets,
        tau=config.tau,
        about=_about(config, source, len(trained), reference.form),
        left_out=selection.filters.removed(),
    )
    write_rows(config.output / GRPO, datasets.grpo)
    write_card(config.output, card, prompts_card_text(card))
    kinds = ", ".join(f"{kind} {count}" for kind, count in card["grpo"]["by kind"].items())
    print(f"{config.output / GRPO}: {len(datasets.grpo)} rows from {len(records)} questions ({kinds})")
    print(selection.filters.summary())
    return card


def _about(config: PromptsConfig, source: Benchmark, trained: int, reference: str) -> dict[str, Any]:
    runs = {name: read_yaml(RunFolder(config.output / name).config) for name in (NATIVE, PLANNER)}
    return {
        "source": f"{source.name}/{source.split}".rstrip("/"),
        "settings": {
            "seed": config.seed,
            "tau": config.tau,
            "limit": config.limit,
            "subtitles": config.subtitles,
            "sft_videos": config.sft_videos,
            "reference": reference,
        },
        **{
            name: {"model": run["identity"]["model"], "method": run["identity"]["method"]}
            for name, run in runs.items()
        },
        "run keys": {name: run["run_key"] for name, run in runs.items()},
        "videos of SFT known": trained,
        "versions": library_versions(),
    }


def _trained_videos(config: PromptsConfig, planner: AskedPlanner) -> EvaluationVideos:
    """The videos that the planner was fine-tuned on. Raises ConfigError if they are unknown."""
    trained = EvaluationVideos()
    if config.sft_videos == "keep":
        return trained
    if config.sft_data is not None:
        add_rows(trained, config.sft_data, "sft_data")
        return trained
    if planner.folder is None:
        return trained
    videos = recorded_videos(planner.folder / RECORD).get("sft", [])
    if not videos:
        raise ConfigError(
            f"planner {planner.name}: its {RECORD} does not list the videos that it was fine-tuned on; "
            "pass --sft-data FILE to leave out questions about them, or --sft-videos keep"
        )
    name = f"the SFT data of {planner.name}"
    trained.contents |= {content: EvaluationVideo(f"a video of {name}", name) for content in videos}
    return trained
