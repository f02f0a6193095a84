"""A cache of decoded frames with a limit in bytes, shared by all readers of frames in a process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from cachetools import LRUCache

from videopro.errors import VideoError, acquired
from videopro.video.decoding.exact import MOST_THREADS, processors

FrameKey = tuple[str, int, tuple[int, int]]
"""(video id, presentation timestamp in ticks, (height, width))."""


class FrameStore:
    """Frames by (video id, timestamp, size); the least recently used are evicted when `max_bytes` is
    exceeded. Thread safe.

    A frame larger than the whole store is not kept. `hits` and `misses` count lookups.

    At most `decoders` videos are decoded at a time, however many are in flight: by default as many as have a
    processor for each of their threads, and two, so that one reads while the other decodes. With `max_bytes`
    this bounds what decoding takes of a process's memory.
    """

    def __init__(self, max_bytes: int = 512 * 2**20, *, decoders: int | None = None) -> None:
        self.hits = 0
        self.misses = 0
        self._frames = _least_recently_used(max_bytes)
        # Requested tick -> timestamp shown: a repeated request need not open the file.
        self._timestamps: LRUCache[tuple[str, int], int] = LRUCache(1 << 16)
        self._lock = threading.Lock()
        self._decoders = threading.BoundedSemaphore(decoders or max(2, processors() // MOST_THREADS))
        self._decode_locks: weakref.WeakValueDictionary[str, _DecodeLock] = weakref.WeakValueDictionary()

    @property
    def max_bytes(self) -> int:
        """The limit."""
        return int(self._frames.maxsize)

    def resize(self, max_bytes: int) -> None:
        """Change the limit, and evict the least recently used frames that no longer fit."""
        with self._lock:
            old, self._frames = self._frames, _least_recently_used(max_bytes)
            while old:
                self._put(*old.popitem())  # the least recently used one

    @property
    def bytes(self) -> int:
        """Bytes of pixels in the store."""
        return int(self._frames.currsize)

    def __len__(self) -> int:
        return len(self._frames)

    def get(self, key: FrameKey) -> np.ndarray | None:
        """The frame's pixels, or None."""
        with self._lock:
            image = self._frames.get(key)
            if image is None:
                self.misses += 1
                return None
            self.hits += 1
            return image

    def put(self, key: FrameKey, image: np.ndarray) -> None:
        """Store a frame, and evict the least recently used ones that no longer fit."""
        with self._lock:
            self._put(key, image)

    def _put(self, key: FrameKey, image: np.ndarray) -> None:
        self._frames.pop(key, None)
        # LRUCache raises ValueError for a value that is larger than the whole cache.
        if image.nbytes <= self._frames.maxsize:
            self._frames[key] = image

    def timestamp_at(self, video: str, tick: int) -> int | None:
        """Timestamp of the frame on display at a tick, if known."""
        with self._lock:
            return self._timestamps.get((video, tick))

    def note_timestamp(self, video: str, tick: int, pts: int) -> None:
        """Store which frame is on display at a tick."""
        with self._lock:
            self._timestamps[video, tick] = pts

    def clear(self) -> None:
        """Remove every frame."""
        with self._lock:
            self._frames.clear()
            self._timestamps.clear()

    @contextmanager
    def decoding(self, video: str) -> Iterator[None]:
        """Allow one decoder per video at a time, and `decoders` in total: a second decoder of a video waits
        (decoding time is bounded), and then finds the frames in the store."""
        with self._lock:
            decode_lock = self._decode_locks.get(video)
            if decode_lock is None:
                decode_lock = self._decode_locks[video] = _DecodeLock()
        # The video's own lock first: those that wait for it keep no other video from being decoded.
        with acquired(decode_lock.lock), acquired(self._decoders):
            yield


def _least_recently_used(max_bytes: int) -> LRUCache[FrameKey, np.ndarray]:
    if max_bytes < 0:
        raise VideoError(f"frame store: max_bytes is {max_bytes}; it must be 0 or more")
    return LRUCache(max_bytes, lambda image: image.nbytes)


class _DecodeLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()


_shared = FrameStore()


def shared_store() -> FrameStore:
    """The store that the process shares by default."""
    return _shared


def _after_fork() -> None:
    """A forked child may have inherited a lock that is never released."""
    global _shared
    _shared = FrameStore(_shared.max_bytes)


os.register_at_fork(after_in_child=_after_fork)
