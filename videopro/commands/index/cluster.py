"""Indexing on a Ray cluster: workers that hold the encoder each take one video after the other.

The indexes are files of their own in a folder that all nodes share. Each is written by the one worker that
has its video.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from videopro.cli import Counter, trim_heap
from videopro.commands.index.precision import tell_precision
from videopro.commands.unprepared import Unprepared
from videopro.engine import CrashRecord, Unit
from videopro.engine.cluster import Cluster, RaySettings, WorkerPool
from videopro.errors import NativeError, RunError, VideoError, unexpected_as
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.modules.search import build_index, default_root, index_path
from videopro.video import Video


@dataclass(frozen=True)
class VideoFile:
    """A video to index."""

    path: Path

    @property
    def id(self) -> str:
        """Its path, which names it."""
        return str(self.path)

    @property
    def video_key(self) -> str:
        """The same: a unit is one video."""
        return self.id


@dataclass(frozen=True)
class IndexJob:
    """What all videos have in common."""

    clip_seconds: float
    root: Path
    nearest_intact: float


@dataclass(frozen=True)
class Indexed:
    """An index that is there now: clips, seconds that it took, its file."""

    clips: int
    seconds: float
    where: Path


class IndexingWorker:
    """Indexes videos on a node. `load` makes the encoder."""

    # The next video is opened and decoded while the last clips of one are encoded and its file is written.
    in_flight = 2

    def __init__(self, load: Callable[[], VideoTextEncoder]) -> None:
        self._encoder = load()

    def identity(self) -> dict[str, object]:
        """The encoder's."""
        return dict(self._encoder.identity())

    def work(
        self, job: IndexJob, items: Sequence[VideoFile]
    ) -> Iterator[tuple[str, Indexed | VideoError | NativeError]]:
        """The index of each video, or why there is none."""
        for item in items:
            try:
                with unexpected_as(NativeError):
                    indexed = self._index(item.path, job)
                yield item.id, indexed
            except (VideoError, NativeError) as error:
                yield item.id, error
            trim_heap()

    def _index(self, path: Path, job: IndexJob) -> Indexed:
        video, began = Video.open(path, nearest_intact=job.nearest_intact), time.monotonic()
        index = build_index(video, self._encoder, clip_seconds=job.clip_seconds, root=job.root)
        where = index_path(video, self._encoder, clip_seconds=job.clip_seconds, root=job.root)
        return Indexed(len(index.clips), time.monotonic() - began, where)


def index_on_cluster(
    paths: Sequence[Path],
    load: Callable[[], VideoTextEncoder],
    settings: RaySettings,
    *,
    clip_seconds: float,
    root: Path | None,
    nearest_intact: float = 0.0,
) -> int:
    """Index these videos on the cluster at RAY_ADDRESS, and return how many could not be indexed, each with a
    line on stderr.

    `root` None: the default folder of this machine, for all nodes. Raises VideoProError, also if an index is
    not where this machine sees it.
    """
    job = IndexJob(clip_seconds, root or default_root(), nearest_intact)
    work: list[Unit[VideoFile]] = [Unit(str(path), (VideoFile(path),)) for path in paths]
    failed, unindexed = 0, Unprepared("indexed")
    with Counter("indexing", len(paths)) as counter, Cluster() as cluster:
        make = partial(IndexingWorker, load)
        pool: WorkerPool[VideoFile, Indexed | VideoError | NativeError] = WorkerPool(
            cluster, make, settings, most=len(work)
        )
        with pool:
            identity = pool.start()
            # No file remembers crashes: the next command tries the video again.
            for results, given_up in pool.run(work, job, CrashRecord.empty(), lambda ids, reason: None):
                for name, result in results:
                    if isinstance(result, VideoError):
                        print(f"error: {result}", file=sys.stderr)
                        failed += 1
                    elif isinstance(result, NativeError):
                        unindexed.tell(Path(name), result)
                        failed += 1
                    else:
                        unindexed.prepared()
                        _check_seen(name, result)
                        print(f"{name}: {result.clips} clips, {result.seconds:.1f} s, {result.where}")
                for item, reason in given_up:
                    print(f"error: {item.path}: given up, because {reason}, twice", file=sys.stderr)
                    failed += 1
                counter.advance(len(results) + len(given_up))
    tell_precision(identity)
    return failed


def _check_seen(name: str, result: Indexed) -> None:
    if not result.where.exists():
        raise RunError(
            f"{name}: its index was written to {result.where} on its node, where this machine does not see "
            "it; give --root, a folder that all nodes share"
        )
