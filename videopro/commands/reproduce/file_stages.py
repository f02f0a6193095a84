"""The stages that bring what a reproduction needs: files, transcripts, indexes."""

from __future__ import annotations

from collections.abc import Iterator

from videopro.commands.reproduce.parts import Part
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Command, Stage, in_shards

SKIPS = "--skip-unreadable"
"""One damaged video of thousands ends no night's work: it is named, and its questions end in an error."""


def download_stages(road: Road) -> Iterator[Stage]:
    """Data and models, and a look at every file. Each benchmark is a stage, so that none is downloaded again
    for another."""
    for part in road.benchmarks():
        if road.is_downloaded(part):
            root = road.root(part)
            yield road.stage(f"download-{part.folder}", *_downloads(part, str(root)), fetches=(root,))
    names = dict.fromkeys(need.hub for need in (*road.backbone_needs(), *road.module_needs()) if need.hub)
    commands = [Command("hf", ("download", name)) for name in names]
    ocr = road.modules().get("ocr", "")
    if ocr.startswith("easyocr") and "@" not in ocr:
        # Its weights are not on the hub: they are downloaded when it is loaded.
        load = f'from videopro.modules.models import load_ocr; load_ocr("{ocr}", device="cpu")'
        commands.append(Command("python", ("-c", load)))
    if commands:
        yield road.stage("download-models", *commands)
    unpack = ("--unpack", *(("--remove-archives",) if road.config.remove_archives else ()))
    checks = [
        Command("benchmarks check", (part.name, "--root", str(road.root(part)), *part.flags, *unpack))
        for part in road.benchmarks()
    ]
    if checks:
        yield road.stage("check", *checks, runs_all=True)


def _downloads(part: Part, root: str) -> Iterator[Command]:
    """The commands that download a benchmark: all pieces that it needs, and nothing else."""
    for each in part.repositories:
        revision = ("--revision", each.revision) if each.revision else ()
        names = (word for files in each.needed for word in ("--include", files.pattern))
        where = ("--repo-type", "dataset", "--local-dir", root)
        yield Command("hf", ("download", each.name, *where, *revision, *names))


def preparation_stages(road: Road) -> Iterator[Stage]:
    """What is made once for each video."""
    modules, parts = road.config.modules, road.benchmarks()
    if road.speech != "none":
        speech = ("--speech", str(modules["speech"])) if "speech" in modules else ()
        asked = [
            ("--benchmark", part.name, "--split", part.split, "--root", str(road.root(part)), *speech, SKIPS)
            for part in parts
        ]
        yield road.stage("transcribe", *_sharded(road, "transcribe", asked), in_parallel=road.gpus > 1)
    encoder = road.modules().get("encoder", "none")
    if encoder not in ("none", "auto") and parts:
        dtype = ("--dtype", str(modules["encoder_dtype"])) if modules.get("encoder_dtype") else ()
        asked = [(str(road.root(part)), "--encoder", encoder, *dtype, SKIPS) for part in parts]
        yield road.stage("index", *_sharded(road, "index", asked), in_parallel=road.gpus > 1)


def _sharded(road: Road, name: str, asked: list[tuple[str, ...]]) -> Iterator[Command]:
    for arguments in asked:
        yield from in_shards(road.placed(Command(name, arguments)), road.devices)
