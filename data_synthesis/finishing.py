"""The end of a synthesis: datasets, data card and table, from all that is recorded."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from videopro.backbones import library_versions
from videopro.benchmarks import Item
from videopro.data_synthesis.card import card_text, make_card, write_card
from videopro.data_synthesis.datasets import assemble, evaluation_rows, limited, write_rows
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import read_teacher_usage


def show_table(card: Mapping[str, Any], folder: Path, open_questions: int) -> None:
    """Print the table."""
    grid = Table(title=f"synthesis from {card['about']['source']}", caption_justify="left")
    for name in ("", "sft", "grpo"):
        grid.add_column(name, justify="left" if not name else "right")
    sft, grpo = card["sft"], card["grpo"]
    for kind in sorted({*sft["by kind"], *grpo["by kind"]}):
        grid.add_row(kind, str(sft["by kind"].get(kind, "-")), str(grpo["by kind"].get(kind, "-")))
    grid.add_section()
    for family in sorted({*sft["by family and kind"], *grpo["by family and kind"]}):
        counts = [sum(part["by family and kind"].get(family, {}).values()) for part in (sft, grpo)]
        grid.add_row(f"family {family}", *map(str, counts))
    grid.add_section()
    grid.add_row("all", str(sft["rows"]), str(grpo["rows"]), style="bold")
    first, teacher, questions = card["programs"]["first"], card["teacher"], card["questions"]
    native = card["native"]
    caption = [
        f"{questions['recorded']} questions, {sum(questions['without a result'].values())} without a result; "
        f"native right {native['right and confident'] + native['right and unsure']}, and confident "
        f"{native['right and confident']}",
        f"{first['replies']} programs: right {first['right']}, failed {first['failed']}, not well-formed "
        f"{first['not well-formed']}",
    ]
    if teacher["requests"]:
        cost = f", cost {teacher['cost']}" if teacher["cost"] is not None else ""
        caption.append(
            f"teacher: {teacher['requests']} requests ({teacher['refused']} gave no text), "
            f"{teacher['tokens_in']} + {teacher['tokens_out']} tokens{cost}"
        )
    grid.caption = "\n".join(caption)
    Console().print(grid)
    Console().print(f"folder: {folder}", soft_wrap=True)
    if open_questions:
        print(
            f"{open_questions} questions are still open: a cap was reached, or --assemble-only was given; "
            "raise the cap and re-run the same command to resume",
            file=sys.stderr,
        )


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
