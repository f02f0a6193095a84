"""The stages from files to tables, in their order (VideoPro, sections 3.6 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from videopro.benchmarks import model_repositories
from videopro.cli import config_file, merged, read_yaml
from videopro.commands.reproduce.parts import Part
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.settings import given
from videopro.commands.reproduce.stages import STAGES, Command, Stage
from videopro.data_synthesis.question_settings import QuestionSettings


def stages_of(road: Road) -> list[Stage]:
    """All stages, those that `--only` and `--skip` leave out too."""
    rows, runs = [*_row_stages(road), *_training_stages(road)], list(_run_stages(road))
    stages = [*_file_stages(road), *_preparation(road, [*rows, *runs]), *rows, *runs, _report(road, runs)]
    return [stage for stage in stages if stage.commands]


def _file_stages(road: Road) -> Iterator[Stage]:
    """Data and models, and a look at every file. Each benchmark is a stage, so that none is downloaded again
    for another."""
    unpack = ("--unpack", *(("--remove-archives",) if road.config.remove_archives else ()))
    checks = []
    for part in road.benchmarks():
        if part.is_downloaded:
            yield road.stage(f"download-{part.folder}", *_downloads(part), fetches=(part.root,))
        flags = (word for name, value in part.settings.items() for word in (f"--{name}", value))
        packed = sum(each.bytes for one in part.repositories for each in one.needed if each.is_packed)
        checks.append(Command("benchmarks check", (part.name, *flags, *unpack), gigabytes=packed / 1e9))
    names = dict.fromkeys(need.hub for need in (*road.backbone_needs(), *road.module_needs()) if need.hub)
    sizes = {name: each.bytes / 1e9 for name, each in model_repositories().items()}
    commands = [Command("hf", ("download", name), gigabytes=sizes.get(name, 0.0)) for name in names]
    ocr = road.modules().get("ocr", "")
    if ocr.startswith("easyocr") and "@" not in ocr:
        # Its weights are not on the hub: they are downloaded when it is loaded.
        load = f'from videopro.modules.models import load_ocr; load_ocr("{ocr}", device="cpu")'
        commands.append(Command("python", ("-c", load)))
    yield road.stage("download-models", *commands)
    yield road.stage("check", *checks)


def _downloads(part: Part) -> Iterator[Command]:
    """The commands that download a benchmark: all pieces that it needs, and nothing else."""
    for each in part.repositories:
        revision = ("--revision", each.revision) if each.revision else ()
        names = (word for files in each.needed for word in ("--include", files.pattern))
        where = ("--repo-type", "dataset", "--local-dir", str(part.root))
        words = ("download", each.name, *where, *revision, *names)
        yield Command("hf", words, gigabytes=each.bytes / 1e9)


def _preparation(road: Road, stages: Sequence[Stage]) -> Iterator[Stage]:
    """What is made once for each video that these stages ask about. One damaged video of thousands ends no
    night's work: it is named, and its questions end in an error."""
    settings = [(each.settings or {}, str(each.file)) for stage in stages for each in stage.commands]
    asks = {(each["root"], each.get("split")): file for each, file in settings if "root" in each}
    if not asks:
        return
    asked, modules = ("--asked-by", *asks.values(), "--skip-unreadable"), road.config.modules
    named = road.modules()
    if named["speech"] != "none":
        yield road.stage("transcribe", Command("transcribe", (*asked, "--speech", named["speech"])))
    encoder = named.get("encoder", "none")
    if encoder not in ("none", "auto"):
        dtype = ("--dtype", str(modules["encoder_dtype"])) if modules.get("encoder_dtype") else ()
        yield road.stage("index", Command("index", (*asked, "--encoder", encoder, *dtype)))


def _row_stages(road: Road) -> Iterator[Stage]:
    """Rows for SFT and prompts for GRPO, from a teacher or without one."""
    config, makers = road.config, road.config.makers
    if makers["sft"] or makers["grpo"] == "synthesize":
        yield road.stage("synthesize", road.command("synthesize", road.synthesis_settings()))
    if makers["sft"] == "rejection":
        settings = {
            "model": config.model,
            "answerer": config.model,
            "data": road.rows("grpo", "synthesize"),
            "output": road.rows("sft", "rejection"),
            "modules": config.modules,
        }
        yield road.stage("rejection", road.command("rejection", settings))


def _training_stages(road: Road) -> Iterator[Stage]:
    """SFT, GRPO, and the last adapter as a plain checkpoint."""
    config, adapter = road.config, given(adapter=road.after_sft)
    if config.trains_sft:
        yield road.stage("sft", _training(road, "sft"))
    if config.makers["grpo"] == "prompts":
        # Which questions are asked, and which must not be, is one decision for both stages.
        shared = {field.name for field in fields(QuestionSettings)}
        settings = {
            **{key: value for key, value in road.synthesis_settings().items() if key in shared},
            **adapter,
            **given(sft_data=config.sft_data),
            "modules": config.modules,
            "output": str(road.output / "prompts"),
        }
        yield road.stage("prompts", road.command("prompts", settings))
    if config.trains_grpo:
        yield road.stage("grpo", _training(road, "grpo", **adapter, **given(modules=config.modules)))
    if config.merge and (last := road.after_grpo or road.after_sft):
        flags = ("--base", config.model, "--adapter", last, "--output", str(road.output / "merged"))
        yield road.stage("merge", Command("merge", flags))


def _training(road: Road, kind: str, **more: Any) -> Command:
    """A training: its config, what the reproduction changes of it, its rows and its output."""
    config, maker = road.config, road.config.makers[kind]
    base = read_yaml(config_file(Path(getattr(config, kind)), kind)) | {"model_name_or_path": config.model}
    rows = road.rows(kind, maker) if maker else getattr(config, f"{kind}_data")
    own = {**more, "train_data": rows, "output_dir": str(road.output / kind)}
    return road.command(kind, merged(base, getattr(config, f"{kind}_settings"), own))


def _run_stages(road: Road) -> Iterator[Stage]:
    """A run of each method that the tables need, on their benchmarks."""
    adapters = {"last": road.after_grpo or road.after_sft, "sft": road.after_sft}
    for name, run in STAGES["infer"]["runs"].items():
        asked = [parts for parts, tables in run["asks"].items() if {*tables} & {*road.config.tables}]
        # Of an adapter made elsewhere, SFT is unknown.
        if not any(asked) or (name == "sft" and not road.has_both):
            continue
        commands, writes = [], []
        for part in getattr(road, asked[0]):
            folder = road.output / "runs" / name / (part.split if part in road.lengths else part.folder)
            settings = road.infer_settings(part, run, adapters.get(run.get("adapter"), ""), folder)
            commands.append(road.command("infer", settings, f"infer-{name}-{folder.name}"))
            writes.append(folder / "summary.json")
        yield road.stage(f"infer-{name}", *commands, does=run["does"], writes=tuple(writes))


def _report(road: Road, runs: Sequence[Stage]) -> Stage:
    """The report of these runs, next to the paper's numbers (Tables 1, 2, 4 and 5, Figures 2, 4 and 5)."""
    titles = {"videopro": "SFT + GRPO=", "sft": "SFT="} if road.has_both else {}
    named: dict[bool, list[str]] = {False: [], True: []}
    for stage in runs:
        name = stage.name.removeprefix("infer-")
        kind = name.removeprefix("lengths-")
        named[kind != name].append(f"{titles.get(kind, '')}{road.output / 'runs' / name}")
    lengths = ("--lengths", *named[True]) if named[True] else ()
    more = ("--published", "--title", "Reproduction of VideoPro", "--output", str(road.output / "report"))
    return road.stage("report", Command("report", (*named[False], *lengths, *more)))
