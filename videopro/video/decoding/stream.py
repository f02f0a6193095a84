"""Streams the pictures at many ticks in one pass over the file, decoded ahead of their use.

The ticks are split at key frames, so that no picture is decoded twice.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from videopro.video.decoding.exact import DecodedPictures, pictures_at
from videopro.video.decoding.opening import Deadline, open_container
from videopro.video.decoding.probe import Probe
from videopro.video.decoding.reader import Reader

# Pictures decoded together: enough groups for every thread, few enough for memory.
_PICTURES_PER_PART = 64
# Pictures held in memory at most if no key frame lies between them. Later ones are decoded again from the key
# frame, which only happens in videos with very long groups.
_MOST = 512


def in_order(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Iterator[tuple[int, np.ndarray]]:
    """(timestamp, picture) on display at each of `ticks` (ascending, within the video), as RGB of `size`
    (height, width). The decoding thread's errors are raised here."""
    # One part waits while the next is decoded; more would only take memory.
    ready: queue.Queue[tuple[list[int], DecodedPictures | BaseException]] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    def hand_over(part: list[int], result: DecodedPictures | BaseException) -> None:
        while not stopped.is_set():
            try:
                # Not forever: a consumer that closed the generator takes nothing any more.
                ready.put((part, result), timeout=0.2)
            except queue.Full:
                continue
            return

    def decode() -> None:
        try:
            for part in _parts(probe, ticks, timeout):
                if stopped.is_set():
                    return
                hand_over(part, pictures_at(probe, part, size, lambda pts: False, timeout))
        except BaseException as failure:
            hand_over([], failure)

    thread = threading.Thread(target=decode, daemon=True)
    thread.start()
    left = len(ticks)
    try:
        while left:
            part, result = ready.get()
            if isinstance(result, BaseException):
                raise result
            for tick in part:
                yield result.at[tick], result.images[result.at[tick]]
            left -= len(part)
    finally:
        stopped.set()
        thread.join()


def _parts(probe: Probe, ticks: Sequence[int], timeout: float) -> Iterator[list[int]]:
    """Split the ticks at key frames into parts of `_PICTURES_PER_PART` or more."""
    part: list[int] = []
    with open_container(probe.path, deadline := Deadline(timeout)) as container:
        reader = Reader(container, probe.path, deadline)

        def key_before(tick: int) -> int | None:
            deadline.renew()
            start = reader.start_before(tick, probe.first)
            return start.key if start else None

        for tick in ticks:
            if len(part) >= _MOST or (
                len(part) >= _PICTURES_PER_PART and key_before(tick) not in (None, key_before(part[-1]))
            ):
                yield part
                part = []
            part.append(tick)
    if part:
        yield part
