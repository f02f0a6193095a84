"""videopro synthesize: questions to trajectories to datasets.

    videopro synthesize --config cg_bench --plan
    videopro synthesize --source cg_bench --root DIR --teacher api:MODEL@URL \\
        --model MODEL --output runs/synth

To resume after an interruption, re-run the same command. Started again while it runs, the same command shares
the work. A larger --limit adds questions; larger caps allow more requests. The datasets and the card are
written at the end from the records (--assemble-only writes them again). The teacher's key stays in the
environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from videopro.backbones import (
    Backbone,
    Sampling,
    ServerSettings,
    load_backbone,
    own_model,
)
from videopro.benchmarks import Benchmark, Item
from videopro.cli import CommandLine, Need, check_needs, exit_status
from videopro.data_synthesis.cluster_run import explore_on_cluster
from videopro.data_synthesis.explore import Explorer
from videopro.data_synthesis.finishing import finish, source_label
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.identity import (
    as_mapping,
    check_teacher,
    full_identity,
    synthesis_identity,
)
from videopro.data_synthesis.pipeline import SynthesisJob, run_pipeline
from videopro.data_synthesis.plan import make_plan
from videopro.data_synthesis.plan_table import shortage, show_plan
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.reservations import Reservations
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import Teacher, no_teacher
from videopro.data_synthesis.teacher_log import ReplyLog, read_reply_tokens, read_teacher_usage
from videopro.engine import ExceptionWatch, Progress, units
from videopro.engine.cluster import RaySettings, read_ray_settings
from videopro.methods import PreparedModels, plugin_identity, prepare_models
from videopro.methods.planners import Planner, load_planner, planner_needs
from videopro.methods.program import paper_backbone, program_needs
from videopro.modules import ModuleModels
from videopro.modules.models.encoders import AUTO_DTYPE
from videopro.runs import RUN_FIELDS, Served, check_files, check_model, check_questions, read_vllm_settings
from videopro.traces import Redo

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
    read_ray_settings(config.engine, config.ray)
    read_vllm_settings(config.engine, config.vllm)
    folder = SynthesisFolder(config.output)
    folder.check()
    if config.encoder_dtype == AUTO_DTYPE:
        # As the folder began, else this machine's: a worker's may differ.
        began = folder.settings()["encoder_dtype"] if folder.config.exists() else config.encoder_precision
        config = replace(config, encoder_dtype=began)

    @cache
    def selected() -> tuple[Benchmark, QuestionSelection]:
        return config.questions()

    @cache
    def guarded() -> tuple[DecontaminationGuard, list[Item]]:
        source, selection = selected()
        guard = DecontaminationGuard(config, source)
        return guard, guard.allowed(
            selection, config.limit, config.offset, config.ids, make_videos=not config.plan
        )

    def videos() -> Iterable[Path]:
        # Those that are drawn are what a model of their own knows, and the guard would make them.
        if config.assemble_only or selected()[0].fetch is not None:
            return ()
        return dict.fromkeys(item.video for item in guarded()[1])

    if config.plan:
        return _show_plan(config, folder, *selected(), guarded()[1])
    prepared = prepare_synthesis(config, load, videos)
    config = replace(config, backbone=dict(prepared.backbone))
    if not config.assemble_only:
        for note in prepared.notes:
            print(note, file=sys.stderr)
        if not folder.traces.exists():
            # Before the source's videos are made or opened; of a folder that may be finished, later.
            check_needs(_needs(config, prepared))
    source, selection = selected()
    identity = {"synthesis": synthesis_identity(config, source), **plugin_identity(prepared.plugins)}
    folder.check_same(identity)
    recorded = folder.read() if folder.traces.exists() else []
    check_questions(recorded, selection.benchmark, folder)
    guard, items = guarded()
    # The datasets alone need no film.
    redo = check_files(
        [] if config.assemble_only else recorded,
        selection.benchmark,
        items,
        folder,
        errors=config.redo_errors,
        changed=config.redo_changed,
    )
    plan = _plan(config, folder, selection, items)
    _explain_shortage(config, selection, items)
    if config.assemble_only:
        folder.settings()
    else:
        if (warning := shortage(plan)) is not None:
            print(warning, file=sys.stderr)
        _explore(
            config, prepared, items, folder, redo, plan, identity, selection.benchmark, load, load_teacher
        )
    return finish(config, folder, selection, guard, items)


def _plan(
    config: SynthesisConfig, folder: SynthesisFolder, selection: QuestionSelection, items: list[Item]
) -> dict[str, Any]:
    return make_plan(
        config,
        selection.filters,
        items,
        folder.read() if folder.traces.exists() else [],
        spent=read_teacher_usage(folder.replies),
        replies=read_reply_tokens(folder.replies),
        has_files=selection.benchmark.fetch is None,
    )


def _show_plan(
    config: SynthesisConfig,
    folder: SynthesisFolder,
    source: Benchmark,
    selection: QuestionSelection,
    items: list[Item],
) -> dict[str, Any]:
    """Print what would be asked, and return it."""
    folder.check_same({"synthesis": synthesis_identity(config, source)})
    plan = _plan(config, folder, selection, items)
    _explain_shortage(config, selection, items)
    show_plan(plan, source_label(selection, config.world_seed))
    return plan


def _explain_shortage(config: SynthesisConfig, selection: QuestionSelection, items: list[Item]) -> None:
    """Say why fewer questions than the limit are left."""
    if config.limit is None or len(items) >= config.limit:
        return
    after = f" after the first {config.offset}" if config.offset else ""
    print(
        f"limit is {config.limit}, and {len(items)} questions are left{after} "
        f"({selection.filters.summary()})",
        file=sys.stderr,
    )


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


def _explore(
    config: SynthesisConfig,
    prepared: PreparedModels,
    items: list[Item],
    folder: SynthesisFolder,
    redo: Redo,
    plan: Mapping[str, Any],
    identity: dict[str, Any],
    benchmark: Benchmark,
    load: Callable[..., Backbone],
    load_teacher: Callable[..., Planner],
) -> None:
    """Record every question that is not recorded yet."""
    recorded = folder.read() if folder.traces.exists() else []
    if {item.id for item in items} <= {trace.question_id for trace in recorded if trace not in redo}:
        if config.engine == "vllm":
            _served(config).check(folder)
        else:
            check_model(folder, identity, config.model, config.backbone, load)
        check_teacher(config, folder)
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
    if config.engine == "ray":
        shares = read_ray_settings(config.engine, config.ray)
        _explore_on_cluster(
            config, prepared, shares, items, folder, redo, plan, identity, benchmark, make_planner
        )
    elif config.engine == "vllm":
        # One process asks it, and one engine is more than it can keep busy.
        with _served(config).start(folder.logs, load, most=1) as engines:
            backbone = engines.loaders[0]()
            _explore_here(config, backbone, items, folder, redo, plan, identity, benchmark, make_planner)
    else:
        _explore_here(config, prepared.load(), items, folder, redo, plan, identity, benchmark, make_planner)


def _served(config: SynthesisConfig) -> Served:
    return Served.of(config.model, config.backbone, config.vllm)


def _explore_here(
    config: SynthesisConfig,
    backbone: Backbone,
    items: list[Item],
    folder: SynthesisFolder,
    redo: Redo,
    plan: Mapping[str, Any],
    identity: dict[str, Any],
    benchmark: Benchmark,
    make_planner: Callable[..., Planner],
) -> None:
    """Explore in this process, with a backbone that is closed at the end."""
    planner = make_planner(backbone)
    models = ModuleModels(config, answering=own_model(backbone), flag=MODELS_FLAG)
    full = full_identity(config, identity, planner, models.identity(), backbone.identity())
    key = folder.open(as_mapping(config), full)
    folder.keep_plan(plan)
    budget = config.budget()
    replies = ReplyLog(folder.replies, budget)
    replies.load()
    reservations = Reservations(folder.reservations) if budget.has_caps else None
    if reservations is not None:
        budget.share(reservations, replies.refresh)
    teacher = Teacher(planner, replies, budget, concurrency=config.concurrency, longest=config.max_new_tokens)
    log = folder.log(redo=redo)
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


def _explore_on_cluster(
    config: SynthesisConfig,
    prepared: PreparedModels,
    shares: RaySettings,
    items: list[Item],
    folder: SynthesisFolder,
    redo: Redo,
    plan: Mapping[str, Any],
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
        full = full_identity(config, identity, planner, models["modules"], models["model"])
        key = folder.open(as_mapping(config), full)
        folder.keep_plan(plan)
        return key

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
            redo,
            benchmark,
            load=prepared.load,
            load_free_teacher=None if planner.asks_model else partial(make_planner, None),
            models_flag=MODELS_FLAG,
            open_folder=open_folder,
            make_teacher=make_teacher,
            spent=budget.text,
        )


if __name__ == "__main__":
    sys.exit(main())
