"""videopro index: embed the clips of videos so that programs can search them, or search a video.

    videopro index video.mp4 --encoder languagebind --query "a ring at the beach"
    videopro index a.mp4 b.mp4 FOLDER --encoder languagebind
    videopro index FOLDER --encoder languagebind --shard 1/4

Re-run the same command to resume. Several commands may work on the same files at the same time. With
--engine ray, the workers of a Ray cluster index (docs/benchmark.md#several-gpus-and-machines).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from videopro.backbones import MODELS, check_scope
from videopro.cli import CommandLine, Counter, check_needs, exit_status, option, trim_heap
from videopro.commands.video_files import Unprepared, VideosConfig, asked_items, named_videos
from videopro.engine import CrashRecord, Unit, Walk
from videopro.engine.cluster import ENGINE, RAY, Cluster, RaySettings, WorkerPool, read_ray_settings
from videopro.errors import ConfigError, NativeError, RunError, VideoError, unexpected_as
from videopro.modules import cache_need, part_needs
from videopro.modules.models.encoders import (
    AUTO_DTYPE,
    BATCH_SIZE,
    VideoTextEncoder,
    load_encoder,
    resolve_dtype,
)
from videopro.modules.search import IndexBusy, build_index, default_root, index_path
from videopro.video import NEAREST_INTACT_HELP, Video, check_nearest_intact

# Videos in hand: the next one is opened and decoded while the encoder works on the last clips of another. Not
# sooner, for another process may be free to take it.
IN_FLIGHT = 2
_LAST_CLIPS = BATCH_SIZE
_FOUND = 3
"""Clips that a query prints."""


@dataclass(frozen=True)
class IndexConfig(VideosConfig):
    """The settings of `videopro index`."""

    encoder: str | None = option(
        None,
        "languagebind, clip, siglip2, pe_video or a plug-in, each with an optional :FOLDER_OR_HUB_NAME, or "
        "asp-clip:FOLDER; default: the encoder of the plug-in that the videos belong to",
    )
    root: Path | None = option(
        None, "folder for indexes; unset: index in $VIDEOPRO_CACHE or ~/.cache/videopro"
    )
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    dtype: str = option(
        AUTO_DTYPE,
        "auto (bfloat16 on a GPU, else float32), float32, bfloat16 or float16; "
        "runs need the same encoder_dtype to read the index",
    )
    query: str | None = option(None, f"print the {_FOUND} clips of the video that best match this text")
    engine: Literal["local", "ray"] = field(default="local", metadata=ENGINE)
    ray: dict[str, Any] = field(default_factory=dict, metadata=RAY)


COMMAND = CommandLine("index", IndexConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        status.code = index(config)
    return status.code


def index(config: IndexConfig) -> int:
    """Index every video. An unreadable video is reported and skipped, and the status is then 2 unless the
    settings say otherwise. Raises VideoProError for errors that affect all videos."""
    check_nearest_intact(config.nearest_intact)
    if not config.videos and not config.asked_by:
        raise ConfigError("pass a video file, a folder of videos, or --asked-by")
    asked = [item.video for item in asked_items(config.asked_by)]
    paths = config.part_of(list(dict.fromkeys([*named_videos(config.videos), *asked])))
    if config.query is not None and config.engine == "ray":
        raise ConfigError("--query searches on this machine; leave out --engine ray")
    if config.query is not None and len(paths) != 1:
        raise ConfigError(f"--query searches one video, but {len(paths)} were given")
    shares = read_ray_settings(config.engine, config.ray)
    encoder = _encoder(config)
    check_scope({"encoder": encoder}, paths)
    load = partial(load_encoder, encoder, dtype=config.dtype)
    if config.engine == "ray":
        # What the encoder needs is looked up by the workers' machines, which load it.
        unindexed = index_on_cluster(paths, load, shares, config)
    else:
        needs = part_needs({"encoder": encoder}, f"--encoder {encoder.partition(':')[0]}:FOLDER")
        check_needs([*needs, cache_need(config.root)])
        loaded = load()
        unindexed = index_videos(paths, loaded, config)
        tell_precision(loaded.identity())
    if len(paths) > 1:
        unindexed.print_all()
    return config.status(len(unindexed), len(paths))


def _encoder(config: IndexConfig) -> str:
    """The encoder's name; by default, if all videos belong to one plug-in, the plug-in's encoder."""
    if config.encoder is not None:
        return config.encoder
    owners = {name.partition(":")[0]: name for name in config.videos}
    for owner, name in owners.items():
        encoder = MODELS[owner].modules.get("encoder") if owner in tuple(MODELS) else None
        if encoder is None or len(owners) > 1:
            raise ConfigError(f"{name}: no encoder is set; pass one, such as --encoder languagebind")
    assert encoder is not None
    return encoder


def index_videos(paths: Sequence[Path], encoder: VideoTextEncoder, config: IndexConfig) -> Unprepared:
    """Index these videos, and return those that could not be read. Other processes can index the same videos;
    none waits for another while there is work left. Raises VideoProError."""
    walk, turn = Walk(paths), threading.Lock()
    # The real one: while a bar is shown, `sys.stdout` is the bar's.
    out = sys.stdout
    unindexed = Unprepared("indexed")

    def work(counter: Counter) -> None:
        going_on = True
        while going_on:
            # Until the last clips of a video are in hand, or it ends otherwise, no other is opened.
            with ExitStack() as opened:
                opened.enter_context(turn)
                path = walk.take()
                going_on = path is not None and index_next(path, counter, opened)

    def index_next(path: Path, counter: Counter, opened: ExitStack) -> bool:
        """Index a video; False: the command ends."""

        def progress(done: int, total: int) -> None:
            if walk.is_stopped:
                raise _Stopped
            if total - done <= _LAST_CLIPS:
                opened.close()
            if len(paths) == 1:
                counter.update(done, total)

        try:
            indexed = index_video(path, encoder, config, progress, wait=False)
            unindexed.prepared()
            # A bar on the terminal moves out of the way of what is printed; a file gets the text alone.
            print(indexed.text, file=sys.stdout if out.isatty() else out, flush=True)
        except IndexBusy:
            walk.put_off(path)
            return True
        except _Stopped:
            return False
        except BaseException as error:
            try:
                unindexed.tell(path, error)
            except BaseException:
                # The other thread ends too, between two of its batches.
                walk.stop()
                raise
        if len(paths) > 1:
            counter.advance()
        return True

    doing, total = (paths[0].name, None) if len(paths) == 1 else ("indexing", len(paths))
    with Counter(doing, total) as counter, ThreadPoolExecutor(IN_FLIGHT) as threads:
        try:
            for each in [threads.submit(work, counter) for _ in range(min(IN_FLIGHT, len(paths)))]:
                each.result()
        finally:
            walk.stop()
    return unindexed


class _Stopped(Exception):
    """The command ends before this video is done."""


@dataclass(frozen=True)
class Indexed:
    """An index that is there now."""

    where: Path
    text: str
    """What to print about it: its clips, the seconds that it took, its file, and the matches of a query."""


def index_video(
    path: Path,
    encoder: VideoTextEncoder,
    config: IndexConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    wait: bool = True,
) -> Indexed:
    """Index one video. `progress`, `wait`: see `build_index`. Raises IndexBusy if another process is
    indexing it and this one does not wait, VideoError if it cannot be read, and VideoProError."""
    video, began = Video.open(path, nearest_intact=config.nearest_intact), time.monotonic()
    index = build_index(video, encoder, root=config.root, progress=progress, wait=wait)
    where = index_path(video, encoder, root=config.root)
    lines = [f"{path}: {len(index.clips)} clips, {time.monotonic() - began:.1f} s, {where}"]
    if config.query is not None:
        for number, score in index.search(config.query, _FOUND):
            start, end = index.clips[number]
            lines.append(f"{start:8.1f} to {end:8.1f} s   {score:.3f}")
    return Indexed(where, "\n".join(lines))


def tell_precision(encoder: Mapping[str, object]) -> None:
    """Print to stderr how runs read indexes of an encoder with this identity, if runs on this machine need an
    option for that: the precision is part of an index's identity."""
    dtype = encoder["dtype"]
    if dtype != resolve_dtype(AUTO_DTYPE):
        print(
            f"runs need encoder_dtype={dtype} to read indexes in {dtype} (videopro infer "
            f"--options encoder_dtype={dtype}, videopro synthesize --encoder-dtype {dtype})",
            file=sys.stderr,
        )


# ---- on a Ray cluster: workers that hold the encoder each take one video after the other -------------------


@dataclass(frozen=True)
class VideoFile:
    """A video to index, as a worker's item."""

    path: Path

    @property
    def id(self) -> str:
        """Its path, which names it."""
        return str(self.path)

    @property
    def video_key(self) -> str:
        """The same: a unit is one video."""
        return self.id


class IndexingWorker:
    """Indexes videos on a node. `load` makes the encoder."""

    in_flight = IN_FLIGHT

    def __init__(self, load: Callable[[], VideoTextEncoder]) -> None:
        self._encoder = load()

    def identity(self) -> dict[str, object]:
        """The encoder's."""
        return dict(self._encoder.identity())

    def work(
        self, config: IndexConfig, items: Sequence[VideoFile]
    ) -> Iterator[tuple[str, Indexed | VideoError | NativeError]]:
        """The index of each video, or the reason it could not be made."""
        for item in items:
            try:
                with unexpected_as(NativeError):
                    indexed = index_video(item.path, self._encoder, config)
                yield item.id, indexed
            except (VideoError, NativeError) as error:
                yield item.id, error
            trim_heap()


def index_on_cluster(
    paths: Sequence[Path], load: Callable[[], VideoTextEncoder], shares: RaySettings, config: IndexConfig
) -> Unprepared:
    """Index these videos on the cluster at RAY_ADDRESS, and return those that could not be indexed. The
    indexes are separate files in a folder that all nodes share. Raises VideoProError, also if this machine
    cannot see an index."""
    # The default folder of this machine, for all nodes.
    config = replace(config, root=config.root or default_root())
    work: list[Unit[VideoFile]] = [Unit(str(path), (VideoFile(path),)) for path in paths]
    unindexed = Unprepared("indexed")
    with Counter("indexing", len(paths)) as counter, Cluster() as cluster:
        pool: WorkerPool[VideoFile, Indexed | VideoError | NativeError] = WorkerPool(
            cluster, partial(IndexingWorker, load), shares, most=len(work)
        )
        with pool:
            identity = pool.start()
            # No file remembers crashes: the next command tries the video again.
            for results, given_up in pool.run(work, config, CrashRecord.empty(), lambda ids, reason: None):
                for name, result in results:
                    if not isinstance(result, Indexed):
                        unindexed.tell(Path(name), result)
                    elif not result.where.exists():
                        raise RunError(
                            f"{name}: its index is at {result.where} on its node, but not on this "
                            "machine; set --root to a folder that all nodes share"
                        )
                    else:
                        unindexed.prepared()
                        print(result.text)
                for item, reason in given_up:
                    unindexed.skip(item.path, f"skipped after two attempts: {reason}")
                counter.advance(len(results) + len(given_up))
    tell_precision(identity)
    return unindexed
