"""The end of a synthesis: datasets, data card and table, from all that is recorded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from videopro.backbones import library_versions
from videopro.benchmarks import Item
from videopro.data_synthesis.balance import limited
from videopro.data_synthesis.card import card_text, make_card, write_card
from videopro.data_synthesis.datasets import assemble, evaluation_rows, write_rows
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.table import show_table
from videopro.data_synthesis.teacher_log import read_teacher_usage


def source_label(selection: QuestionSelection, world_seed: int | None) -> str:
    """The source and its split, as rows and cards name them."""
    label = f"{selection.benchmark.name}/{selection.benchmark.split}".rstrip("/")
    return label if world_seed is None else f"{label}-{world_seed}"


def finish(
    config: SynthesisConfig,
    folder: SynthesisFolder,
    selection: QuestionSelection,
    guard: DecontaminationGuard,
    items: list[Item],
) -> dict[str, Any]:
    """Datasets, card and table; one command on the folder at a time, and each from all that is recorded."""
    with folder.finishing():
        card, open_questions = _write(config, folder, selection, guard, items)
    show_table(card, folder.path, open_questions=open_questions)
    return card


def _write(
    config: SynthesisConfig,
    folder: SynthesisFolder,
    selection: QuestionSelection,
    guard: DecontaminationGuard,
    items: list[Item],
) -> tuple[dict[str, Any], int]:
    """Write datasets and card. Returns the card, and the number of questions that are still open."""
    traces = folder.read()
    source = source_label(selection, config.world_seed)
    row_prompts = config.row_prompts()
    datasets = assemble(
        traces,
        tau=config.tau,
        source=source,
        folder=folder.path,
        excluded=guard.excluded,
        seeds=guard.seeds,
        skip=guard.skip,
        held_out=guard.held_out,
        split=config.video_split(),
        always_program=config.always_program,
        prompt_file=row_prompts,
        reference=config.row_reference(),
        subtitle_track=config.subtitle_track,
    )
    datasets = limited(datasets, config.limits_sft(), config.limits_grpo(), seed=config.seed)
    recorded = folder.settings()
    card = make_card(
        traces,
        datasets,
        tau=config.tau,
        about={
            "source": source,
            "settings": {
                **recorded["identity"]["synthesis"],
                "always_program": config.always_program,
                **({} if row_prompts is None else {"prompts": dict(row_prompts.texts)}),
                **({} if config.reference == "none" else {"reference": config.reference}),
            },
            "teacher": {k: v for k, v in recorded["identity"]["teacher"].items() if k != "url"},
            "model": recorded["identity"]["model"],
            "modules": recorded["identity"]["modules"],
            "run_key": recorded["run_key"],
            "versions": library_versions(),
            "evaluation videos known": len(guard.excluded),
        },
        left_out=selection.filters.removed(),
        filters=[asdict(step) for step in selection.filters.steps],
        plan=folder.plan(),
        spent=read_teacher_usage(folder.replies),
        prices=config.prices(),
    )
    datasets.write(folder.path)
    if guard.set_aside:
        aside = [item for item in selection.benchmark.items if item.video_key in guard.set_aside]
        if selection.benchmark.fetch is not None:
            selection.benchmark.fetch(aside)
        write_rows(folder.held_out, evaluation_rows(aside, folder.path))
    write_card(folder.path, card, card_text(card))
    return card, len({item.id for item in items} - {trace.question_id for trace in traces})
