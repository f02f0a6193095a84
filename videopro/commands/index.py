"""videopro index: embed the clips of videos, so that programs can search them, or search one.

    videopro index film.mp4 --encoder languagebind --query "a ring at the beach"
    videopro index a.mp4 b.mp4 FOLDER --encoder languagebind
    videopro index FOLDER --encoder languagebind --shard 1/4

Re-run the same command to resume. Several commands may work on the same files at the same time. With
--engine ray, the workers of a Ray cluster index (docs/clusters.md).
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
from videopro.cli import CommandLine, Counter, check_needs, exit_status, option, setting, trim_heap
from videopro.commands.video_files import VIDEOS_HELP, Unprepared, named_videos
from videopro.engine import CrashRecord, Unit, Walk, shard
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
from videopro.modules.search import (
    CLIP_SECONDS,
    IndexBusy,
    build_index,
    clip_bounds,
    default_root,
    index_path,
)
from videopro.video import NEAREST_INTACT_HELP, Video, check_nearest_intact

# Videos in hand: the next one is opened and decoded while the encoder works on the last clips of another. Not
# sooner, for another process may be free to take it.
IN_FLIGHT = 2
_LAST_CLIPS = BATCH_SIZE


@dataclass(frozen=True)
class IndexConfig:
    """The settings of `videopro index`."""

    videos: tuple[str, ...] = field(metadata=setting(VIDEOS_HELP, positional=True))
    encoder: str | None = option(
        None,
        "languagebind, clip, siglip2, pe_video or a plug-in, each with :FOLDER_OR_HUB_NAME, or "
        "asp-clip:FOLDER; default: that of the plug-in whose videos they are",
    )
    clip_seconds: float = option(CLIP_SECONDS, "length of a clip in seconds")
    root: Path | None = option(
        None, "folder for indexes (default: index in $VIDEOPRO_CACHE or ~/.cache/videopro)"
    )
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    device: str | None = option(None, "such as cuda:1; default: the first accelerator")
    dtype: str = option(
        AUTO_DTYPE,
        "float32, bfloat16 or float16; runs read it with the same encoder_dtype; "
        "auto: bfloat16 on a GPU, else float32",
    )
    shard: str | None = option(
        None, "index part i of n of the videos, such as 2/8, with n commands on n machines"
    )
    query: str | None = option(None, "print the clips of the video that best match this text")
    top_k: int = option(3, "number of clips to print for a query")
    skip_unreadable: bool = option(
        False, "status 0 even if some of the videos are unreadable; they are named all the same"
    )
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
    """Index every video. An unreadable video is reported and skipped, and the status is then 2, unless the
    settings say otherwise. Raises VideoProError for errors that concern all videos."""
    # Before anything is loaded.
    clip_bounds(1.0, config.clip_seconds)
    check_nearest_intact(config.nearest_intact)
    if config.top_k < 1:
        raise ConfigError(f"top_k is {config.top_k}; it must be at least 1")
    if not config.videos:
        raise ConfigError("give a video file or a folder of videos")
    paths = named_videos(config.videos)
    if config.shard is not None:
        # Sorted: commands that name the same files in another order still split them alike.
        paths = shard(sorted(paths), config.shard)
    if config.query is not None and len(paths) != 1:
        raise ConfigError(f"--query searches one video, but these are {len(paths)}")
    shares = read_ray_settings(config.engine, config.ray)
    encoder = _encoder(config)
    check_scope({"encoder": encoder}, paths)
    if config.engine != "ray":
        # Of a cluster, the workers' machines need it.
        check_needs(
            [*part_needs({"encoder": encoder}, "--encoder languagebind:FOLDER"), cache_need(config.root)]
        )
    load = partial(load_encoder, encoder, config.device, dtype=config.dtype)
    if config.engine == "ray":
        if config.device is not None:
            raise ConfigError("--device: Ray gives each worker its device; leave it out")
        if config.query is not None:
            raise ConfigError("--query: searches on this machine; leave out --engine ray")
        failed = index_on_cluster(paths, load, shares, config)
    else:
        loaded = load()
        failed = index_videos(paths, loaded, config)
        tell_precision(loaded.identity())
    is_some = failed < len(paths)
    return 2 if failed and not (config.skip_unreadable and is_some) else 0


def _encoder(config: IndexConfig) -> str:
    """The encoder's name; by default, where all videos are those of one plug-in, the one that goes with
    it."""
    if config.encoder is not None:
        return config.encoder
    (owner, *others) = dict.fromkeys(video.partition(":")[0] for video in config.videos)
    encoder = MODELS[owner].modules.get("encoder") if owner in tuple(MODELS) and not others else None
    if encoder is None:
        other = next(video for video in config.videos if video.partition(":")[0] not in tuple(MODELS))
        raise ConfigError(f"{other}: name an encoder, such as --encoder languagebind")
    return encoder


def index_videos(paths: Sequence[Path], encoder: VideoTextEncoder, config: IndexConfig) -> int:
    """Index these videos, and return how many could not be read. Other processes may be at the same ones:
    none waits for another while there is something left to do. Raises VideoProError."""
    walk = Walk(paths)
    turn = threading.Lock()
    # The real one: while a bar is shown, `sys.stdout` is the bar's.
    out = sys.stdout
    failed: list[Path] = []
    unindexed = Unprepared("indexed")

    def work(counter: Counter) -> None:
        while index_next(counter):
            pass

    def index_next(counter: Counter) -> bool:
        with ExitStack() as stack:
            turn.acquire()
            stack.callback(turn.release)
            path = walk.take()
            if path is None:
                return False

            def progress(done: int, total: int) -> None:
                if walk.is_stopped:
                    raise _Stopped
                if total - done <= _LAST_CLIPS:
                    stack.close()
                if len(paths) == 1:
                    counter.update(done, total)

            try:
                indexed = index_video(path, encoder, config, progress, wait=False)
            except IndexBusy:
                walk.put_off(path)
                return True
            except VideoError as error:
                print(f"error: {error}", file=sys.stderr)
                failed.append(path)
            except _Stopped:
                return False
            except BaseException as error:
                try:
                    unindexed.tell(path, error)
                except BaseException:
                    walk.stop()
                    raise
                failed.append(path)
            else:
                unindexed.prepared()
                # A bar on the terminal moves out of the way of what is printed; a file gets it as it is.
                print(indexed.text, file=sys.stdout if out.isatty() else out, flush=True)
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
    return len(failed)


class _Stopped(Exception):
    """The command ends before this video is done."""


@dataclass(frozen=True)
class Indexed:
    """An index that is there now."""

    where: Path
    text: str
    """What to print about it: its clips, the seconds that it took, its file, and what a query met."""


def index_video(
    path: Path,
    encoder: VideoTextEncoder,
    config: IndexConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    wait: bool = True,
) -> Indexed:
    """Index one video. `progress`, `wait`: see `build_index`. Raises IndexBusy while another process is at it
    and it does not wait, VideoError if it cannot be read, and VideoProError."""
    video, began = Video.open(path, nearest_intact=config.nearest_intact), time.monotonic()
    seconds, root = config.clip_seconds, config.root
    index = build_index(video, encoder, clip_seconds=seconds, root=root, progress=progress, wait=wait)
    where = index_path(video, encoder, clip_seconds=seconds, root=root)
    lines = [f"{path}: {len(index.clips)} clips, {time.monotonic() - began:.1f} s, {where}"]
    if config.query is not None:
        for number, score in index.search(config.query, config.top_k):
            start, end = index.clips[number]
            lines.append(f"{start:8.1f} to {end:8.1f} s   {score:.3f}")
    return Indexed(where, "\n".join(lines))


def tell_precision(encoder: Mapping[str, object]) -> None:
    """Say on stderr how runs read indexes of an encoder with this identity, if runs on this machine would
    not read them by themselves: the precision is part of what an index is known by."""
    dtype = encoder["dtype"]
    if dtype != resolve_dtype(AUTO_DTYPE):
        print(
            f"runs read indexes in {dtype} with encoder_dtype={dtype} only (videopro infer "
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
        """The index of each video, or why there is none."""
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
) -> int:
    """Index these videos on the cluster at RAY_ADDRESS, and return how many could not be indexed, each with a
    line on stderr. The indexes are files of their own in a folder that all nodes share. Raises VideoProError,
    also if an index is not where this machine sees it."""
    # The default folder of this machine, for all nodes.
    config = replace(config, root=config.root or default_root())
    work: list[Unit[VideoFile]] = [Unit(str(path), (VideoFile(path),)) for path in paths]
    failed, unindexed = 0, Unprepared("indexed")
    with Counter("indexing", len(paths)) as counter, Cluster() as cluster:
        pool: WorkerPool[VideoFile, Indexed | VideoError | NativeError] = WorkerPool(
            cluster, partial(IndexingWorker, load), shares, most=len(work)
        )
        with pool:
            identity = pool.start()
            # No file remembers crashes: the next command tries the video again.
            for results, given_up in pool.run(work, config, CrashRecord.empty(), lambda ids, reason: None):
                for name, result in results:
                    if isinstance(result, VideoError):
                        print(f"error: {result}", file=sys.stderr)
                        failed += 1
                    elif isinstance(result, NativeError):
                        unindexed.tell(Path(name), result)
                        failed += 1
                    elif not result.where.exists():
                        raise RunError(
                            f"{name}: its index was written to {result.where} on its node, where this "
                            "machine does not see it; give --root, a folder that all nodes share"
                        )
                    else:
                        unindexed.prepared()
                        print(result.text)
                for item, reason in given_up:
                    print(f"error: {item.path}: given up, because {reason}, twice", file=sys.stderr)
                    failed += 1
                counter.advance(len(results) + len(given_up))
    tell_precision(identity)
    return failed
