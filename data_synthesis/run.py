"""videopro synthesize: questions to trajectories to datasets.

    videopro synthesize --source pocket --teacher pocket-teacher \\
        --model pocket --output runs/synth

To resume after an interruption, re-run the same command. Started again while it runs, the same command shares
the work. A larger --limit adds questions; larger caps allow more requests. The datasets and the card are
written at the end from the records (--assemble-only writes them again). The teacher's key stays in the
environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from videopro.backbones import (
    Backbone,
    Sampling,
    ServerSettings,
    load_backbone,
    recorded_spec,
)
from videopro.benchmarks import Benchmark, Item
from videopro.cli import CommandLine, Need, check_needs, exit_status
from videopro.data_synthesis.balance import limited
from videopro.data_synthesis.card import card_text, make_card
from videopro.data_synthesis.cluster_run import explore_on_cluster
from videopro.data_synthesis.datasets import assemble, evaluation_rows, write_rows
from videopro.data_synthesis.explore import Explorer
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.pipeline import SynthesisJob, run_pipeline
from videopro.data_synthesis.questions import QuestionSelection, load_source, select_questions
from videopro.data_synthesis.reservations import Reservations
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.table import show_table
from videopro.data_synthesis.teacher import Teacher, no_teacher
from videopro.data_synthesis.teacher_log import ReplyLog, read_teacher_usage
from videopro.engine import ExceptionWatch, Progress, units
from videopro.engine.cluster import RaySettings, read_ray_settings
from videopro.errors import RunError, cannot_write
from videopro.methods import PreparedModels, prepare_models, versions
from videopro.methods.planners import Planner, load_planner, planner_needs
from videopro.methods.program import paper_backbone, program_needs
from videopro.modules import (
    ModuleModels,
    ModuleSettings,
    is_pocket,
)
from videopro.runs import RUN_FIELDS, check_model, check_questions, identity_difference
from videopro.storage import write_atomically

MODELS_FLAG = "--{option} none"
"""How a synthesis leaves out the model of a part."""

COMMAND = CommandLine("synthesize", SynthesisConfig, ignore=RUN_FIELDS, configs="synthesis")


def main(
    argv: Sequence[str] | None = None,
    *,
    load: Callable[..., Backbone] = load_backbone,
    load_teacher: Callable[..., Planner] = load_planner,
) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted.
    `load(model, **settings)` makes the backbone, `load_teacher(spec, backbone, **settings)` the teacher
    (tests pass their own)."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        run(config, load=load, load_teacher=load_teacher)
    return status.code


def run(
    config: SynthesisConfig,
    *,
    load: Callable[..., Backbone] = load_backbone,
    load_teacher: Callable[..., Planner] = load_planner,
) -> dict[str, Any]:
    """Ask the questions that are still open, write datasets and card, print a table, and return the card.
    Raises VideoProError."""
    folder = SynthesisFolder(config.output)
    folder.check()

    @cache
    def selected() -> tuple[Benchmark, QuestionSelection]:
        source = load_source(
            config.source,
            split=config.split,
            root=config.root,
            world_seed=config.world_seed,
            subtitle_track=config.subtitle_track,
        )
        return source, select_questions(source, seed=config.seed, without_family=config.without_family)

    @cache
    def guarded() -> tuple[DecontaminationGuard, list[Item]]:
        source, selection = selected()
        guard = DecontaminationGuard(config, source)
        return guard, guard.allowed(selection, limit=config.limit, offset=config.offset, ids=config.ids)

    def videos() -> Iterable[Path]:
        # Those of pocket are of the pocket world for sure, and the guard would make them.
        if config.assemble_only or selected()[0].name == "pocket":
            return ()
        return dict.fromkeys(item.video for item in guarded()[1])

    prepared = prepare_synthesis(config, load, videos)
    config = replace(config, backbone=dict(prepared.backbone))
    if not config.assemble_only:
        for note in prepared.notes:
            print(note, file=sys.stderr)
        if not folder.traces.exists():
            # Before the source's videos are made or opened; of a folder that may be finished, later.
            check_needs(_needs(config, prepared))
    source, selection = selected()
    identity = {"synthesis": _identity(config, source)}
    folder.check_same(identity)
    if folder.traces.exists():
        check_questions(folder.read(), selection.benchmark, folder)
    guard, items = guarded()
    if config.limit is not None and len(items) < config.limit:
        after = f" after the first {config.offset}" if config.offset else ""
        print(
            f"limit is {config.limit}, and {len(items)} questions are left{after} "
            f"({selection.filters.told()})",
            file=sys.stderr,
        )
    if config.assemble_only:
        folder.settings()
    else:
        _explore(config, prepared, items, folder, identity, selection.benchmark, load, load_teacher)
    return _finish(config, folder, selection, guard, items)


def prepare_synthesis(
    config: SynthesisConfig, load: Callable[..., Backbone], videos: Callable[[], Iterable[Path]]
) -> PreparedModels:
    """The models of a synthesis, checked as those of any run by programs. `load` and `videos` as in
    `prepare_models`. Raises VideoProError."""
    backbone, notes = paper_backbone(config, config.backbone)
    return prepare_models(
        config.model,
        backbone,
        load=load,
        names=asdict(config),
        videos=videos,
        notes=notes,
        needs=lambda model: [
            *_teacher_needs(config),
            *program_needs(config, model, flag=MODELS_FLAG),
        ],
    )


def _needs(config: SynthesisConfig, prepared: PreparedModels) -> list[Need]:
    """What has to be there before anything is loaded. The workers of a cluster have machines of their own,
    but the teacher is asked from here."""
    if config.engine == "ray":
        return _teacher_needs(config)
    return prepared.needs()


def _teacher_needs(config: SynthesisConfig) -> list[Need]:
    return [] if config.teacher is None else planner_needs(config.teacher, config.api_key_env)


def _identity(config: SynthesisConfig, source: Benchmark) -> dict[str, Any]:
    names = ("tau", "programs", "refinements", "seed", "subtitles", "without_family")
    # Only if they are set, so that older folders keep their keys.
    newer = ("subtitle_track", "sft_share", "grpo_programs", "held_out_videos")
    return {
        "source": source.name,
        "split": source.split,
        "version": source.version,
        **{name: getattr(config, name) for name in names},
        **{name: value for name in newer if (value := getattr(config, name)) is not None},
    }


def _explore(
    config: SynthesisConfig,
    prepared: PreparedModels,
    items: list[Item],
    folder: SynthesisFolder,
    identity: dict[str, Any],
    benchmark: Benchmark,
    load: Callable[..., Backbone],
    load_teacher: Callable[..., Planner],
) -> None:
    """Record every question that is not recorded yet."""
    done = {t.question_id for t in folder.read()} if folder.traces.exists() else set()
    if {item.id for item in items} <= done and not config.redo_errors:
        check_model(folder, identity, config.model, config.backbone, load)
        _check_teacher(config, folder)
        return
    check_needs(_needs(config, prepared))
    make_planner = partial(
        load_teacher if config.teacher is not None else no_teacher,
        config.teacher or "",
        sampling=Sampling(config.max_new_tokens, config.temperature, config.top_p),
        api_key_env=config.api_key_env,
        concurrency=config.concurrency,
        server=ServerSettings.given_in(config.backbone),
    )
    shares = read_ray_settings(config.engine, config.ray)
    if config.engine == "ray":
        _explore_on_cluster(config, prepared, shares, items, folder, identity, benchmark, make_planner)
        return
    backbone = prepared.load()
    planner = make_planner(backbone)
    models = ModuleModels(config, pocket=is_pocket(backbone), flag=MODELS_FLAG)
    full = _full_identity(config, identity, planner, models.identity(), backbone.identity())
    key = folder.open(_as_mapping(config), full)
    budget = config.budget()
    replies = ReplyLog(folder.replies, budget)
    replies.load()
    reservations = Reservations(folder.reservations) if budget.has_caps else None
    if reservations is not None:
        budget.share(reservations, replies.refresh)
    teacher = Teacher(planner, replies, budget, concurrency=config.concurrency, longest=config.max_new_tokens)
    log = folder.log(redo_errors=config.redo_errors)
    try:
        log.refresh()
        watch = ExceptionWatch(folder.exceptions)
        ids = [item.id for item in items]
        with Progress(ids, doing="exploring", note=budget.text, seen=watch.see) as progress:
            progress.watch(folder.log(writable=False))
            run_pipeline(
                units(items),
                Explorer(backbone, models, teacher, config.explore_settings()),
                backbone,
                log,
                SynthesisJob(key, benchmark.protocol, benchmark.parser),
                leases=folder.leases,
                in_flight=config.videos_in_flight(),
                on_progress=progress.update,
                halt=teacher.close,
            )
    finally:
        teacher.close()
        log.close()
        replies.close()
        if reservations is not None:
            reservations.close()
        backbone.close()


def _full_identity(
    config: SynthesisConfig, identity: Mapping[str, Any], planner: Planner, modules: object, model: object
) -> dict[str, Any]:
    prompt_file = config.asked_prompts()
    return {
        **identity,
        # The prompts only if they are not ours, so that older folders keep their keys.
        "teacher": planner.identity() | ({} if prompt_file is None else {"prompts": dict(prompt_file.texts)}),
        "modules": modules,
        "model": model,
    }


def _explore_on_cluster(
    config: SynthesisConfig,
    prepared: PreparedModels,
    shares: RaySettings,
    items: list[Item],
    folder: SynthesisFolder,
    identity: dict[str, Any],
    benchmark: Benchmark,
    make_planner: Callable[..., Planner],
) -> None:
    """As `_explore`, by the workers of a cluster. The teacher that is asked, its caps and the file of its
    replies stay here."""
    planner = make_planner(None)
    budget = config.budget()
    opened = ExitStack()

    def open_folder(models: Mapping[str, object]) -> str:
        full = _full_identity(config, identity, planner, models["modules"], models["model"])
        return folder.open(_as_mapping(config), full)

    def make_teacher() -> Teacher:
        replies = opened.enter_context(closing(ReplyLog(folder.replies, budget)))
        replies.load()
        if budget.has_caps:
            budget.share(opened.enter_context(closing(Reservations(folder.reservations))), replies.refresh)
        settings = {"concurrency": config.concurrency, "longest": config.max_new_tokens}
        return Teacher(planner, replies, budget, **settings)

    with opened:
        explore_on_cluster(
            config,
            shares,
            items,
            folder,
            benchmark,
            load=prepared.load,
            load_free_teacher=None if planner.asks_model else partial(make_planner, None),
            models_flag=MODELS_FLAG,
            open_folder=open_folder,
            make_teacher=make_teacher,
            spent=budget.text,
        )


def _check_teacher(config: SynthesisConfig, folder: SynthesisFolder) -> None:
    """Compare the settings of the teacher and of the modules' models with those of the folder, without
    loading them. Raises RunError."""
    recorded, current = folder.settings(), _as_mapping(config)
    sampling = {"temperature", "top_p", "max_new_tokens"} & recorded["identity"]["teacher"].keys()
    # What the preset stands for is in the other settings. A folder of an earlier version lacks newer ones.
    defaults = {option.name: option.default for option in fields(ModuleSettings) if option.name != "preset"}
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


def _finish(
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
    label = f"{selection.benchmark.name}/{selection.benchmark.split}".rstrip("/")
    source = label if config.world_seed is None else f"{label}-{config.world_seed}"
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
            },
            "teacher": {k: v for k, v in recorded["identity"]["teacher"].items() if k != "url"},
            "model": recorded["identity"]["model"],
            "modules": recorded["identity"]["modules"],
            "run_key": recorded["run_key"],
            "versions": versions(),
            "evaluation videos known": len(guard.excluded),
        },
        left_out=selection.filters.removed(),
        spent=read_teacher_usage(folder.replies),
        prices=config.prices(),
    )
    datasets.write(folder.path)
    if guard.set_aside:
        aside = [item for item in selection.benchmark.items if item.video_key in guard.set_aside]
        if selection.benchmark.fetch is not None:
            selection.benchmark.fetch(aside)
        write_rows(folder.held_out, evaluation_rows(aside, folder.path))
    try:
        write_atomically(folder.card_json, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
        write_atomically(folder.card_md, card_text(card))
    except OSError as error:
        raise RunError(cannot_write(error.filename or folder.path, error)) from error
    return card, len({item.id for item in items} - {trace.question_id for trace in traces})


def _as_mapping(config: SynthesisConfig) -> dict[str, Any]:
    """The settings as YAML can hold them."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
        if key not in ("assemble_only", "redo_errors")
    }


if __name__ == "__main__":
    sys.exit(main())
