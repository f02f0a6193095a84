"""The clip index of a video: an embedding of every 10-second clip, computed once and stored on disk.

    from videopro.modules.search import build_index
    index = build_index(Video.open("video.mp4"), load_encoder("languagebind"))
    for number, score in index.search("a red ring at the beach", 3):
        print(index.clips[number], score)

Sections 3.2 and A.1 of the paper (clips of 10 s). The video is decoded once; clip bounds are exact
presentation times. An index file is named by the video's content, the encoder's identity and the clip length,
so it stays valid when the video moves and is never used with another encoder. An interrupted build resumes.
If two processes need the same index, one builds it; the other waits, or does something else meanwhile. A
damaged file is rebuilt. The next clips are decoded while the encoder works.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from videopro.cli import cache_root
from videopro.errors import ConfigError, check_cancelled
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import BATCH_SIZE, VideoTextEncoder
from videopro.storage import lock_file, write_atomically
from videopro.traces import Cost, Preparation
from videopro.video import Frame, Video, made_ahead, may_stand_in, stand_ins_in

# Tolerance of the length of float32 unit rows, whatever precision they were computed in.
_TOLERANCE = 1e-3


class DamagedIndex(Exception):
    """An index file that is damaged or belongs to something else; the message says how."""


StandIns = tuple[tuple[float, float], ...]
"""(requested time, time of the intact frame) in s, for frames that replace damaged ones."""


class StoredClips(NamedTuple):
    """The stored data of some clips."""

    rows: np.ndarray
    """(n, *encoder.clip_shape) float32, unit rows."""
    stand_ins: StandIns = ()
    seconds: float | None = None
    """Seconds to make them; None: unknown, as an earlier process made some."""


def read_vectors(path: Path, owner: str, shape: tuple[int, ...]) -> StoredClips | None:
    """The rows of n clips in a file, (n, d) or (n, rows, d); None if there is no file. Raises DamagedIndex if
    it is damaged, has another shape, or another owner."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if metadata.get("whose") != owner:
                raise DamagedIndex("belongs to another video or encoder")
            part = file.get_slice("vectors")
            stored_shape = tuple(part.get_shape())
            # Checked before reading: a header may claim any size.
            if stored_shape != shape or part.get_dtype() != "F32":
                raise DamagedIndex(
                    f"has shape {stored_shape} and type {part.get_dtype()}, not {shape} and F32"
                )
            rows: np.ndarray = file.get_tensor("vectors")
    except (OSError, SafetensorError) as error:
        raise DamagedIndex(f"is damaged ({str(error).strip().splitlines()[0]})") from error
    # safetensors checks its header, not its data.
    if hashlib.sha256(rows.tobytes()).hexdigest() != metadata.get("sha256"):
        raise DamagedIndex("is damaged (its contents do not match their hash)")
    if (defect := find_defect(rows)) is not None:
        raise DamagedIndex(f"has a row that {defect}")
    stand_ins = tuple((wanted, given) for wanted, given in json.loads(metadata.get("stand_ins", "[]")))
    return StoredClips(rows, stand_ins, json.loads(metadata.get("seconds", "null")))


def find_defect(rows: np.ndarray) -> str | None:
    """What is wrong with rows that should be unit vectors; None if nothing is."""
    if not np.isfinite(rows).all():
        return "is not finite"
    lengths = np.linalg.norm(rows, axis=-1).ravel()
    worst = lengths[np.argmax(np.abs(lengths - 1))]
    return None if abs(worst - 1) <= _TOLERANCE else f"has length {worst:.3g}, not 1"


def write_vectors(
    path: Path, owner: str, rows: np.ndarray, stand_ins: StandIns = (), seconds: float | None = None
) -> None:
    """Write the file of a `StoredClips` atomically. Raises OSError."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    metadata = {"whose": owner, "sha256": hashlib.sha256(rows.tobytes()).hexdigest()}
    metadata |= {"stand_ins": json.dumps(stand_ins), "seconds": json.dumps(seconds)}
    write_atomically(path, save({"vectors": rows}, metadata=metadata), shared=True)


_READY = 2
"""Batches that wait for the consumer; another is being prepared."""

Batch = tuple[Sequence[Sequence[Frame]], StandIns]
"""Clips, and their frames that replace damaged ones."""


def decoded_ahead(
    video: Video, encoder: VideoTextEncoder, clips: Sequence[tuple[float, float]], sizes: Sequence[int]
) -> Generator[Batch, None, None]:
    """The clips in batches of these sizes. A thread prepares them while the consumer works. Raises
    VideoError."""

    def batches() -> Generator[Batch, None, None]:
        frames = video.stream(
            (time for start, end in clips for time in encoder.clip_times(start, end)),
            size=encoder.frame_size(video.height, video.width),
        )
        with closing(frames):
            for size in sizes:
                batch = [list(islice(frames, encoder.clip_frames)) for _ in range(size)]
                yield encoder.stage_clips(batch), stand_ins_in(chain.from_iterable(batch))

    return made_ahead(batches(), most=_READY, name="clips")


CLIP_SECONDS = 10.0
# Raised when what is stored for a clip changes: files of other formats are then not found.
_FORMAT = 2
# Clips per part of a build. A part is written to disk at once; a killed build loses at most one.
_PART = 2 * BATCH_SIZE
# Seconds. A shorter last clip is a rounding error, not a clip.
_SLACK = 1e-3

ProgressCallback = Callable[[int, int], None]
"""Called with the number of clips done and the total."""


class IndexBusy(Exception):
    """Another process is building this index."""


@dataclass(frozen=True, eq=False)
class ClipIndex:
    """The clips of one video and their embeddings. Thread-safe."""

    video: str
    """Content id of the video (`Video.id`)."""
    clip_seconds: float
    clips: tuple[tuple[float, float], ...]
    """(start, end) in seconds of each clip, in order, without gaps; the last one ends with the video."""
    vectors: np.ndarray = field(repr=False)
    """(clips, *encoder.clip_shape) float32, unit rows."""
    encoder: VideoTextEncoder = field(repr=False)
    stand_ins: StandIns = ()
    seconds: float | None = None
    """Seconds to build it; None: unknown, as an interrupted build was resumed."""

    def identity(self) -> dict[str, object]:
        """Everything but the video that search results depend on, as JSON-serializable data."""
        return {"clip_seconds": self.clip_seconds, "encoder": self.encoder.identity()}

    def search(
        self, query: str, top_k: int, *, start: float | None = None, end: float | None = None
    ) -> list[tuple[int, float]]:
        """The `top_k` best clips as (clip number, cosine similarity), best first; ties by time.

        Only clips that overlap `start`..`end` (seconds; None: the whole video), so there may be fewer than
        `top_k`. Raises ValueError if `top_k` is not positive.
        """
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1")
        low, high = start if start is not None else -math.inf, end if end is not None else math.inf
        inside = [i for i, (a, b) in enumerate(self.clips) if a < high and b > low]
        if not inside:
            return []
        (scores,) = self.encoder.similarities(self.encoder.encode_texts([query]), self.vectors[inside])
        # Stable, so that of equally good clips the earlier one comes first, on every machine.
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [(inside[int(i)], float(scores[i])) for i in best]


def clip_bounds(duration: float, clip_seconds: float = CLIP_SECONDS) -> tuple[tuple[float, float], ...]:
    """(start, end) in seconds of a video's clips: `clip_seconds` each, the last one may be shorter.

    Raises ConfigError if `clip_seconds` is not a positive number.
    """
    if not (clip_seconds > 0 and math.isfinite(clip_seconds)):
        raise ConfigError(f"clip_seconds is {clip_seconds!r}; it must be a positive number of seconds")
    count = max(1, math.ceil((duration - _SLACK) / clip_seconds))
    starts = [i * clip_seconds for i in range(count)]
    return tuple(zip(starts, [*starts[1:], duration], strict=True))


def default_root() -> Path:
    """The default directory of indexes: `index` in $VIDEOPRO_CACHE, else in ~/.cache/videopro."""
    return cache_root() / "index"


def index_path(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> Path:
    """The path of an index file, whether it exists or not."""
    return _Place(video, encoder, clip_seconds, root).path


def build_index(
    video: Video,
    encoder: VideoTextEncoder,
    *,
    clip_seconds: float = CLIP_SECONDS,
    root: Path | None = None,
    progress: ProgressCallback = lambda done, total: None,
    wait: bool = True,
) -> ClipIndex:
    """Load the index of a video from disk, or build and store it. A damaged index is rebuilt, with a message
    on stderr.

    `root` None: `default_root()`. `progress(done, total)` is called after every batch of clips. Raises
    VideoError for an unreadable video, ConfigError for an invalid clip length or a directory that cannot be
    written, ModelError for an encoder that returns invalid embeddings, and, unless it may `wait`, IndexBusy
    while another process builds this index.
    """
    place = _Place(video, encoder, clip_seconds, root)
    try:
        if (index := place.load()) is not None:
            return index
        with _exclusive_lock(place.path, wait):
            # The process that held the lock before may have built it.
            return place.load() or place.build(progress)
    except OSError as error:
        raise ConfigError(
            f"the index cannot be written to {error.filename or place.path.parent} "
            f"({error.strerror or error}); free some space there, or choose another directory "
            "(VIDEOPRO_CACHE, or --root)"
        ) from error


def prepare_index(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> tuple[ClipIndex, Preparation]:
    """The clip index of a video, built if it is missing, and its cost: seconds of building and decoded
    frames, whichever process built it. Raises as `build_index`."""
    index = build_index(video, encoder, clip_seconds=clip_seconds, root=root)
    cost, key = Cost(), f"{video.id}/{index_path(video, encoder, clip_seconds=clip_seconds, root=root).stem}"
    if index.seconds is not None:
        cost = Cost(seconds=index.seconds, frames=len(index.clips) * encoder.clip_frames)
    is_known = index.seconds is not None
    return index, Preparation("index", key, cost, is_known=is_known, stand_ins=index.stand_ins)


@dataclass(frozen=True)
class _Place:
    """Where the index of a video is, and how it gets there."""

    video: Video
    encoder: VideoTextEncoder
    clip_seconds: float
    root: Path | None

    @cached_property
    def made_of(self) -> str:
        """Everything but the video that an index depends on."""
        parts = {"format": _FORMAT, "clip_seconds": float(self.clip_seconds)}
        return json.dumps({**parts, "encoder": self.encoder.identity()}, sort_keys=True)

    @cached_property
    def path(self) -> Path:
        key = hashlib.sha256(self.made_of.encode()).hexdigest()[:16]
        return (self.root or default_root()) / self.video.id / f"{key}.safetensors"

    @cached_property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        return clip_bounds(self.video.duration, self.clip_seconds)

    def owner(self, part: range | None = None) -> str:
        """Stored in the file of an index, or of a part of its clips, so that one that was copied to another's
        path is not used."""
        return f"{self.video.id} {self.made_of}" + ("" if part is None else f" {part}")

    def stored(self, path: Path, part: range | None = None) -> StoredClips | None:
        """What a file holds; None if it is missing, was damaged and is removed, or has frames that stand in
        for damaged ones where they may not."""
        shape = (len(self.bounds if part is None else part), *self.encoder.clip_shape)
        try:
            stored = read_vectors(path, self.owner(part), shape)
        except DamagedIndex as error:
            print(f"{path}: {error}; rebuilding it", file=sys.stderr)
            path.unlink(missing_ok=True)
            return None
        if stored is None or not may_stand_in(stored.stand_ins, self.video.nearest_intact):
            return None
        return stored

    def load(self) -> ClipIndex | None:
        stored = self.stored(self.path)
        return None if stored is None else self.index(stored)

    def index(self, stored: StoredClips) -> ClipIndex:
        rows, stand_ins, seconds = stored
        known = (self.video.id, float(self.clip_seconds), self.bounds)
        return ClipIndex(*known, rows, self.encoder, stand_ins, seconds)

    def build(self, progress: ProgressCallback) -> ClipIndex:
        began, total = time.monotonic(), len(self.bounds)
        parts = {
            self.path.with_suffix(f".part{number}"): range(first, min(first + _PART, total))
            for number, first in enumerate(range(0, total, _PART))
        }
        done = {
            file: stored for file, part in parts.items() if (stored := self.stored(file, part)) is not None
        }
        # The parts of an interrupted build would make it look cheap.
        is_whole = not done
        count = sum(len(stored.rows) for stored in done.values())
        progress(count, total)
        missing = {file: part for file, part in parts.items() if file not in done}
        # A batch ends with its part, which is written as soon as it is done.
        sizes = {
            file: [len(part[first : first + BATCH_SIZE]) for first in range(0, len(part), BATCH_SIZE)]
            for file, part in missing.items()
        }
        clips = [self.bounds[number] for part in missing.values() for number in part]
        all_sizes = [*chain.from_iterable(sizes.values())]
        standing: deque[StandIns] = deque()

        def noted(batches: Iterable[Batch]) -> Iterator[Sequence[Sequence[Frame]]]:
            for batch, stand_ins in batches:
                # What was stored of the parts before is found by the next build.
                check_cancelled()
                standing.append(stand_ins)
                yield batch

        with closing(decoded_ahead(self.video, self.encoder, clips, all_sizes)) as batches:
            embedded = self.encoder.encode_stream(noted(batches))
            for file, part in missing.items():
                rows: list[np.ndarray] = []
                stand_ins: StandIns = ()
                for vectors in islice(embedded, len(sizes[file])):
                    rows.append(vectors)
                    stand_ins += standing.popleft()
                    count += len(vectors)
                    progress(count, total)
                done[file] = StoredClips(np.concatenate(rows), stand_ins)
                if (defect := find_defect(done[file].rows)) is not None:
                    raise ModelError(
                        f"encoder {self.encoder.name!r}: the embedding of a clip of {self.video.path} "
                        f"{defect}; check the checkpoint's weights"
                    )
                write_vectors(file, self.owner(part), *done[file])
        whole = StoredClips(
            np.concatenate([done[file].rows for file in parts]),
            tuple(pair for file in parts for pair in done[file].stand_ins),
            time.monotonic() - began if is_whole else None,
        )
        write_vectors(self.path, self.owner(), *whole)
        for file in parts:
            file.unlink(missing_ok=True)
        return self.index(whole)


@contextmanager
def _exclusive_lock(path: Path, wait: bool) -> Iterator[None]:
    """Let one process at a time build this index. The kernel frees the lock of a killed process. Raises
    IndexBusy if it is taken, unless it may `wait`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            if wait:
                lock_file(lock.fileno())
            else:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IndexBusy(str(path)) from error
        yield
