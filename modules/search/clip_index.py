"""The clip index of a video: an embedding for every 10-second clip, made once, kept on disk, searched.

    from videopro.modules.search.clip_index import build_index
    index = build_index(Video.open("film.mp4"), load_encoder("pocket"))
    for number, score in index.search("a red ring at the beach", 3):
        print(index.clips[number], score)

Section 3.2 and A.1 of the paper (clips of 10 s). One pass over the file, with exact bounds by presentation
time. A file of the index is named by the video's content, the encoder's identity and the clip length, so it
outlives a move of the video and never serves another encoder. An interrupted build goes on where it stopped;
of two processes that want the same index one builds it and the other waits; a damaged file is made again
(`videopro.modules.search.index_file`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.base import BATCH_SIZE, VideoTextEncoder
from videopro.modules.search.index_file import DamagedIndex, find_defect, read_rows, write_rows
from videopro.video import Frame, Video

CLIP_SECONDS = 10.0
_FORMAT = 2
# Clips that are embedded together and put on disk together: what a killed build loses at most.
_PART = 2 * BATCH_SIZE
# Less than this much of a last clip is rounding, no clip.
_SLACK = 1e-3

ProgressCallback = Callable[[int, int], None]
"""Told the clips that are done and all there are."""


@dataclass(frozen=True, eq=False)
class ClipIndex:
    """The clips of one video and their embeddings. Thread safe."""

    video: str
    """Content id of the file (`Video.id`)."""
    clip_seconds: float
    clips: tuple[tuple[float, float], ...]
    """(start, end) in seconds of each clip, in order, without gaps; the last one ends with the video."""
    vectors: np.ndarray = field(repr=False)
    """(clips, d) float32, rows of length 1."""
    encoder: VideoTextEncoder = field(repr=False)

    def identity(self) -> dict[str, object]:
        """All that search results rest on besides the video, as plain data."""
        return {"clip_seconds": self.clip_seconds, "encoder": self.encoder.identity()}

    def search(
        self, query: str, top_k: int, *, start: float | None = None, end: float | None = None
    ) -> list[tuple[int, float]]:
        """(number of a clip, cosine similarity) of the `top_k` best clips, best first, earlier ones first
        among equals.

        Only clips that share some time with `start`..`end` (seconds; None: the whole video); fewer than
        `top_k`, or none, when there are not so many. `ValueError` for a `top_k` below 1.
        """
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1")
        low, high = start if start is not None else -math.inf, end if end is not None else math.inf
        inside = [i for i, (a, b) in enumerate(self.clips) if a < high and b > low]
        if not inside:
            return []
        (wanted,) = self.encoder.encode_texts([query])
        scores = self.vectors[inside] @ wanted
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [(inside[int(i)], float(scores[i])) for i in best]


def clip_bounds(duration: float, clip_seconds: float = CLIP_SECONDS) -> tuple[tuple[float, float], ...]:
    """(start, end) in seconds of the clips of a video: `clip_seconds` each, the last one as long as is left.

    `ConfigError` for a clip length that is not more than 0.
    """
    if not (clip_seconds > 0 and math.isfinite(clip_seconds)):
        raise ConfigError(f"clip_seconds is {clip_seconds!r}; give seconds, more than 0")
    count = max(1, math.ceil((duration - _SLACK) / clip_seconds))
    starts = [i * clip_seconds for i in range(count)]
    return tuple(zip(starts, [*starts[1:], duration], strict=True))


def default_root() -> Path:
    """Where indexes are kept: `index` in $VIDEOPRO_CACHE, else in ~/.cache/videopro."""
    return Path(os.environ.get("VIDEOPRO_CACHE") or Path.home() / ".cache" / "videopro") / "index"


def index_path(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> Path:
    """The file in which that index is or would be."""
    key = hashlib.sha256(_index_name(encoder, clip_seconds).encode()).hexdigest()[:16]
    return (root or default_root()) / video.id / f"{key}.safetensors"


def _index_name(encoder: VideoTextEncoder, clip_seconds: float) -> str:
    """All that an index rests on besides the video."""
    about = {"format": _FORMAT, "clip_seconds": float(clip_seconds), "encoder": encoder.identity()}
    return json.dumps(about, sort_keys=True)


def load_index(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> ClipIndex | None:
    """The index that is on disk; None if it is not there, or damaged (`build_index` makes it again)."""
    bounds = clip_bounds(video.duration, clip_seconds)
    path = index_path(video, encoder, clip_seconds=clip_seconds, root=root)
    try:
        vectors = read_rows(path, _index_metadata(video, encoder, clip_seconds), (len(bounds), encoder.width))
    except DamagedIndex:
        return None
    return None if vectors is None else ClipIndex(video.id, float(clip_seconds), bounds, vectors, encoder)


def _index_metadata(video: Video, encoder: VideoTextEncoder, clip_seconds: float) -> str:
    """What a file says of itself, so that it is not taken for another one in whose place it was put."""
    return f"{video.id} {_index_name(encoder, clip_seconds)}"


def build_index(
    video: Video,
    encoder: VideoTextEncoder,
    *,
    clip_seconds: float = CLIP_SECONDS,
    root: Path | None = None,
    progress: ProgressCallback | None = None,
) -> ClipIndex:
    """The index of a video: read if it is on disk, else made and written; so is one that is damaged, and that
    is told on stderr.

    `root` None: `default_root()`. `progress(done, all)` is called as clips get done. `VideoError` for a video
    that cannot be read, `ConfigError` for a clip length that cannot be or a folder that cannot be written,
    `ModelError` for an encoder whose embeddings are none.
    """
    bounds = clip_bounds(video.duration, clip_seconds)
    known = load_index(video, encoder, clip_seconds=clip_seconds, root=root)
    if known is not None:
        return known
    path = index_path(video, encoder, clip_seconds=clip_seconds, root=root)
    try:
        with _exclusive_lock(path):
            # Whoever held the lock before may have made it.
            whose = _index_metadata(video, encoder, clip_seconds)
            vectors = _read_existing(path, whose, (len(bounds), encoder.width))
            if vectors is None:
                vectors = _make(video, encoder, bounds, path, whose, progress)
    except OSError as error:
        raise ConfigError(
            f"the index cannot be written to {error.filename or path.parent} ({error.strerror or error}); "
            "free some space there, or name another folder (VIDEOPRO_CACHE, or --root)"
        ) from error
    return ClipIndex(video.id, float(clip_seconds), bounds, vectors, encoder)


def _make(
    video: Video,
    encoder: VideoTextEncoder,
    bounds: tuple[tuple[float, float], ...],
    path: Path,
    whose: str,
    progress: ProgressCallback | None,
) -> np.ndarray:
    parts = [range(at, min(at + _PART, len(bounds))) for at in range(0, len(bounds), _PART)]
    files = [path.with_suffix(f".part{number}") for number in range(len(parts))]
    done = {
        n: rows
        for n, part in enumerate(parts)
        if (rows := _read_existing(files[n], _part(whose, part), (len(part), encoder.width))) is not None
    }
    count = sum(len(rows) for rows in done.values())
    told = progress or (lambda done, all: None)
    told(count, len(bounds))
    missing = [n for n in range(len(parts)) if n not in done]
    clips = [bounds[i] for n in missing for i in parts[n]]
    frames = video.stream(
        (time for start, end in clips for time in encoder.clip_times(start, end)),
        size=encoder.frame_size(video.height, video.width),
    )
    try:
        for n in missing:
            coded: list[np.ndarray] = []
            for at in range(0, len(parts[n]), BATCH_SIZE):
                batch = _clips(frames, len(parts[n][at : at + BATCH_SIZE]), encoder.clip_frames)
                coded.append(encoder.encode_clips(batch))
                count += len(batch)
                told(count, len(bounds))
            done[n] = np.concatenate(coded)
            wrong = find_defect(done[n])
            if wrong is not None:
                raise ModelError(
                    f"encoder {encoder.name!r}: its embedding of a clip of {video.path} {wrong}; are its "
                    "weights whole?"
                )
            write_rows(files[n], _part(whose, parts[n]), done[n])
    finally:
        frames.close()
    vectors = np.concatenate([done[n] for n in range(len(parts))])
    write_rows(path, whose, vectors)
    for file in files:
        file.unlink(missing_ok=True)
    return vectors


def _clips(frames: Iterator[Frame], count: int, length: int) -> list[list[Frame]]:
    return [list(islice(frames, length)) for _ in range(count)]


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Only one process at a time builds this index; the lock of one that is killed is free again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _part(whose: str, clips: range) -> str:
    return f"{whose} {clips}"


def _read_existing(path: Path, whose: str, shape: tuple[int, int]) -> np.ndarray | None:
    """The rows in a file; None if they are to be made: there is none, or, which is told, no whole one."""
    try:
        return read_rows(path, whose, shape)
    except DamagedIndex as error:
        print(f"{path}: {error}; made again", file=sys.stderr)
        return None
