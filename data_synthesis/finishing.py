"""The end of a synthesis: datasets, data card and a few lines, from all that is recorded."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from videopro.backbones import library_versions
from videopro.benchmarks import Item
from videopro.data_synthesis.card import CARD_MD, card_text, inline_counts, make_card, write_card
from videopro.data_synthesis.datasets import assemble, evaluation_rows, limited, write_rows
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.rules import PLAN
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import read_teacher_usage
from videopro.errors import failure_lines
from videopro.traces.scoring import failures


def show_end(card: Mapping[str, Any], folder: SynthesisFolder, open_questions: int) -> None:
    """Print what was made, and what failed; the card has the rest."""
    questions, first, native, teacher = (
        card["questions"],
        card["programs"]["first"],
        card["native"],
        card["teacher"],
    )
    for name in ("sft", "grpo"):
        print(f"{name}.jsonl: {card[name]['rows']} rows ({inline_counts(card[name]['by kind'])})")
    print(
        f"{questions['recorded']} questions, {sum(questions['without a result'].values())} without a result; "
        f"native right {native['right and confident'] + native['right and unsure']}, and confident "
        f"{native['right and confident']}\n"
        f"{first['replies']} programs: right {first['right']}, failed {first['failed']}, not well-formed "
        f"{first['not well-formed']}"
    )
    if teacher["requests"]:
        cost = f", cost {teacher['cost']}" if teacher["cost"] is not None else ""
        print(
            f"teacher: {teacher['requests']} requests ({teacher['refused']} gave no text), "
            f"{teacher['tokens_in']} + {teacher['tokens_out']} tokens{cost}"
        )
    traces = folder.read()
    programs = [
        (trace.video.key, trace.question_id, f"{execution.error.type}: {execution.error.message}")
        for trace in traces
        for round in trace.rounds
        if round.prompt_kind == PLAN and (execution := round.execution) is not None and execution.error
    ]
    for what, failed in (("questions without a result", failures(traces)), ("failed programs", programs)):
        if failed:
            print(f"{what}:", *failure_lines(failed, str(folder.traces)), sep="\n")
    print(f"folder: {folder.path} (families, what was rejected and why: {CARD_MD})")
    if open_questions:
        print(
            f"{open_questions} questions are still open, because a cap was reached or --assemble-only is "
            "set; raise the cap and re-run the same command to resume",
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
    """Datasets and card; one command on the folder at a time, and each from all that is recorded."""
    with folder.locked("finish.lock"):
        card, open_questions = _write(config, folder, selection, guard, items)
    show_end(card, folder, open_questions)
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
    datasets = limited(datasets, sft=config.sft_rows, grpo=config.grpo_rows, seed=config.seed)
    recorded = folder.settings()
    card = make_card(
        traces,
        datasets,
        tau=config.tau,
        about={
            "source": source,
            "settings": {
                **recorded["identity"]["synthesis"],
                **{name: getattr(config, name) for name in ("always_program", "rename_modules")},
                **({} if row_prompts is None else {"prompts": dict(row_prompts.texts)}),
                **({} if config.reference == "none" else {"reference": config.reference}),
            },
            # Its address may name a machine of the user's.
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
