"""Decoded frames, kept within a number of bytes, so that a frame is decoded once for all who ask for it.

Knows keys and arrays. Must not know files or how frames are decoded.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from cachetools import LRUCache

from videopro.errors import VideoError

FrameKey = tuple[str, int, tuple[int, int]]
"""(video id, presentation timestamp in ticks, (height, width))."""


class FrameStore:
    """Frames by (video id, timestamp, size); the least recently used leave when `max_bytes` are exceeded.
    Thread safe.

    A frame larger than the whole store is not kept. `hits` and `misses` count lookups.
    """

    def __init__(self, max_bytes: int = 512 * 2**20) -> None:
        if max_bytes < 0:
            raise VideoError(f"frame store: max_bytes is {max_bytes}; it must be 0 or more")
        self.max_bytes = max_bytes
        self.hits = 0
        self.misses = 0
        self._frames: LRUCache[FrameKey, np.ndarray] = LRUCache(max_bytes, lambda image: image.nbytes)
        # Which timestamp is shown at a tick that was asked for: spares opening the file for the same question
        # again.
        self._shown: LRUCache[tuple[str, int], int] = LRUCache(1 << 16)
        self._lock = threading.Lock()
        self._turns: weakref.WeakValueDictionary[str, _DecodeLock] = weakref.WeakValueDictionary()

    @property
    def bytes(self) -> int:
        """Bytes of pixels that are kept now."""
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
        """Keep a frame, and let go of the least recently used ones that no longer fit."""
        with self._lock:
            self._frames.pop(key, None)
            if image.nbytes <= self.max_bytes:
                self._frames[key] = image

    def shown(self, video: str, tick: int) -> int | None:
        """Timestamp of the frame on display at a tick, if it was found before."""
        with self._lock:
            return self._shown.get((video, tick))

    def note_shown(self, video: str, tick: int, pts: int) -> None:
        """Remember which frame is on display at a tick."""
        with self._lock:
            self._shown[video, tick] = pts

    def clear(self) -> None:
        """Let go of every frame."""
        with self._lock:
            self._frames.clear()
            self._shown.clear()

    @contextmanager
    def decoding(self, video: str) -> Iterator[None]:
        """One decoder a video at a time: who comes second waits (decoding is bounded in time), and then finds
        the frames in the store."""
        with self._lock:
            turn = self._turns.get(video)
            if turn is None:
                turn = self._turns[video] = _DecodeLock()
        with turn.lock:
            yield


class _DecodeLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()


_shared = FrameStore()


def shared_store() -> FrameStore:
    """The store that a process shares by default."""
    return _shared


def _after_fork() -> None:
    """A forked child may have inherited a lock that nobody will release."""
    global _shared
    _shared = FrameStore(_shared.max_bytes)


os.register_at_fork(after_in_child=_after_fork)
