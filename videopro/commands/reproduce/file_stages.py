"""The stages that bring what a reproduction needs: files, transcripts, indexes."""

from __future__ import annotations

from collections.abc import Iterator

from videopro.commands.reproduce.parts import protocol
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import DOWNLOAD, Command, Stage, in_shards

SKIPS = "--skip-unreadable"
"""One damaged video of thousands ends no night's work: it is named, and its questions end in an error."""


def download_stages(road: Road) -> Iterator[Stage]:
    """Models and data, and a look at every file."""
    names = [part.folder for part in road.benchmarks()]
    folders = {
        road.config.data / name: repository
        for name, repository in road.config.downloads.items()
        if name in names and road.is_downloaded(name)
    }
    commands = [
        Command(DOWNLOAD, ("download", repository, "--repo-type", "dataset", "--local-dir", str(folder)))
        for folder, repository in folders.items()
    ]
    needs = [*road.backbone_needs(), *road.module_needs()]
    models = dict.fromkeys(need.hub for need in needs if need.hub)
    commands += [Command(DOWNLOAD, ("download", name)) for name in models]
    if commands:
        about = "download models and datasets from the hub"
        yield Stage("download", about, tuple(commands), fetches=tuple(folders))
    checks = [
        Command(
            "benchmarks check",
            (
                part.name,
                "--root",
                str(road.root(part)),
                "--split",
                part.split,
                *protocol(part),
                "--unpack",
            ),
        )
        for part in road.benchmarks()
    ]
    if checks:
        about = "unpack archives and check the benchmarks' files"
        yield Stage("check", about, tuple(checks), runs_all=True)


def preparation_stages(road: Road) -> Iterator[Stage]:
    """What is made once for each video."""
    parts = road.benchmarks()
    speech = ("--speech", str(road.config.modules["speech"])) if "speech" in road.config.modules else ()
    if road.speech != "none":
        commands = tuple(
            command
            for part in parts
            for command in in_shards(
                road.placed(
                    Command(
                        "transcribe",
                        (
                            "--benchmark",
                            part.name,
                            "--split",
                            part.split,
                            "--root",
                            str(road.root(part)),
                            *speech,
                            SKIPS,
                        ),
                    )
                ),
                road.devices,
            )
        )
        yield Stage("transcribe", "transcribe videos without subtitles", commands, in_parallel=road.gpus > 1)
    encoder = road.encoder
    if encoder not in ("", "none", "auto") and parts:
        dtype = road.config.modules.get("encoder_dtype")
        flags = ("--encoder", encoder, *(("--dtype", str(dtype)) if dtype else ()), SKIPS)
        commands = tuple(
            command
            for part in parts
            for command in in_shards(
                road.placed(Command("index", (str(road.root(part)), *flags))), road.devices
            )
        )
        yield Stage("index", "embed the clips of every video", commands, in_parallel=road.gpus > 1)
