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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from videopro.backbones import (
    Backbone,
    Sampling,
    ServerSettings,
    load_backbone,
)
from videopro.benchmarks import Benchmark, Item
from videopro.cli import CommandLine, Need, check_needs, exit_status
from videopro.data_synthesis.finishing import finish, source_label
from videopro.data_synthesis.folder import (
    SynthesisFolder,
    check_teacher,
    synthesis_identity,
)
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.pipeline import MODELS_FLAG, Exploration
from videopro.data_synthesis.plan import make_plan, shortage, show_plan
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import no_teacher, read_reply_tokens, read_teacher_usage
from videopro.engine.cluster import read_ray_settings
from videopro.methods import PreparedModels, plugin_identity, prepare_models
from videopro.methods.planners import Planner, load_planner, planner_needs
from videopro.methods.program import paper_backbone, program_needs
from videopro.modules.models.encoders import AUTO_DTYPE
from videopro.runs import RUN_FIELDS, Served, check_files, check_model, check_questions, read_vllm_settings

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

    # When first needed, and once: a benchmark's files take seconds, and wrong settings are reported before.
    @cache
    def selected() -> tuple[Benchmark, QuestionSelection]:
        return config.questions()

    @cache
    def guarded() -> tuple[DecontaminationGuard, list[Item]]:
        source, selection = selected()
        guard = DecontaminationGuard(config, source)
        return guard, guard.allowed(selection, config.limit, config.ids, make_videos=not config.plan)

    def videos() -> Iterable[Path]:
        # The model of generated videos knows them, and the guard would make them.
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
    # The datasets alone need no video.
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
        make_planner = partial(
            load_teacher if config.teacher is not None else no_teacher,
            config.teacher or "",
            sampling=Sampling(config.max_new_tokens, config.temperature),
            api_key_env=config.api_key_env,
            concurrency=config.concurrency,
            server=ServerSettings.given_in(config.backbone),
        )
        exploration = Exploration(
            config, folder, selection.benchmark, items, redo, identity, plan, make_planner
        )
        _explore(exploration, prepared, load)
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
    """Print why fewer questions than the limit are left."""
    if config.limit is None or len(items) >= config.limit:
        return
    print(
        f"limit is {config.limit}, but only {len(items)} questions are left ({selection.filters.summary()})",
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
    """What must be present before anything is loaded. Workers of a cluster run on other machines, but the
    teacher is asked from here."""
    if config.engine == "ray":
        return _teacher_needs(config)
    return prepared.needs()


def _teacher_needs(config: SynthesisConfig) -> list[Need]:
    return [] if config.teacher is None else planner_needs(config.teacher, config.api_key_env)


def _explore(exploration: Exploration, prepared: PreparedModels, load: Callable[..., Backbone]) -> None:
    """Record every question that is not recorded yet."""
    config, folder, redo = exploration.config, exploration.folder, exploration.redo
    recorded = folder.read() if folder.traces.exists() else []
    if {item.id for item in exploration.items} <= {
        trace.question_id for trace in recorded if trace not in redo
    }:
        if config.engine == "vllm":
            _served(config).check(folder)
        else:
            check_model(folder, exploration.identity, config.model, config.backbone, load)
        check_teacher(config, folder)
        return
    check_needs(_needs(config, prepared))
    if config.engine == "ray":
        exploration.on_cluster(prepared.load, read_ray_settings(config.engine, config.ray))
    elif config.engine == "vllm":
        # One process asks it, and one engine is more than it can keep busy.
        with _served(config).start(folder.logs, load, most=1) as engines:
            exploration.here(engines.loaders[0]())
    else:
        exploration.here(prepared.load())


def _served(config: SynthesisConfig) -> Served:
    return Served.of(config.model, config.backbone, config.vllm)


if __name__ == "__main__":
    sys.exit(main())
