"""Streams the pictures at many ticks in one pass over the file, decoded ahead of their use.

The ticks are split at key frames, so that no picture is decoded twice.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from videopro.errors import Cancellation, cancellable, check_cancelled, when_cancelled
from videopro.video.decoding.exact import (
    MOST_THREADS,
    DecodedPictures,
    add_stand_ins,
    pictures_at,
    processors,
)
from videopro.video.decoding.opening import Deadline, open_container
from videopro.video.decoding.picture import RgbConverter
from videopro.video.decoding.probe import Probe
from videopro.video.decoding.processes import DecodingProcesses, PartInProcess, decoding_processes
from videopro.video.decoding.reader import Reader

T = TypeVar("T")


def made_ahead(
    items: Generator[T, None, None], most: int, *, name: str = "ahead"
) -> Generator[T, None, None]:
    """The items, made by a thread while the consumer works: at most `most` of them wait, and one more is
    being made. Their exceptions are raised here. Once this generator is closed, or the consumer's work is
    cancelled, the thread ends at its next check, and no thread of it is left when `close` returns."""
    ready: deque[T] = deque()
    changed = threading.Condition()
    failure: list[BaseException] = []
    is_complete = False
    # The thread's own: it ends the making of an item in the middle, also where the consumer itself fails.
    stopping = Cancellation()

    def notify() -> None:
        with changed:
            changed.notify_all()

    def make() -> None:
        nonlocal is_complete
        try:
            with cancellable(stopping):
                try:
                    for item in items:
                        with changed:
                            changed.wait_for(lambda: len(ready) < most or stopping.is_cancelled)
                            stopping.check()
                            ready.append(item)
                            changed.notify_all()
                finally:
                    items.close()
        except BaseException as error:
            failure.append(error)
        with changed:
            is_complete = True
            changed.notify_all()

    def stop() -> None:
        stopping.cancel()
        notify()

    thread = threading.Thread(target=make, daemon=True, name=name)
    with when_cancelled(stop):
        thread.start()
        try:
            while True:
                with changed:
                    changed.wait_for(lambda: ready or is_complete or stopping.is_cancelled)
                    stopping.check()
                    if not ready:
                        break
                    item = ready.popleft()
                    changed.notify_all()
                yield item
            if failure:
                raise failure[0]
        finally:
            stop()
            thread.join()


_Part = tuple[list[int], DecodedPictures]
"""Ticks, and what is on display at them."""

# Pictures decoded together: enough groups for every thread, few enough for memory.
_PICTURES_PER_PART = 64
# Pictures held in memory at most if no key frame lies between them. Later ones are decoded again from the key
# frame, which only happens in videos with very long groups.
_MOST = 512


def in_order(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Iterator[tuple[int, np.ndarray, bool]]:
    """(timestamp, picture, whether it stands in for a damaged one) on display at each of `ticks` (ascending,
    within the video), as RGB of `size` (height, width). Many pictures are decoded by separate processes,
    others by threads; their errors are raised here. Raises VideoError if the file changes meanwhile."""
    parts = _parts_decoded_ahead(probe, ticks, size, timeout)
    try:
        for part, pictures in parts:
            check_cancelled()
            # A video may be indexed for hours. What was decoded of another file would count as its own.
            probe.check_unchanged()
            for tick in part:
                yield pictures.at[tick], pictures.images[pictures.at[tick]], tick in pictures.damaged
    finally:
        parts.close()


def _parts_decoded_ahead(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[_Part, None, None]:
    """The parts' pictures in order, decoded by processes, or by threads of this one."""
    if not probe.is_seekable:
        # Each part by itself would begin at the start of the file.
        decoded = _in_one_pass(probe, ticks, size, timeout)
    elif (pool := decoding_processes(len(ticks))) is not None:
        return _by_processes(pool, probe, ticks, size, timeout)
    else:
        decoded = _one_by_one(probe, ticks, size, timeout)
    # One part waits while the next is decoded; more would only take memory.
    return made_ahead(decoded, most=1, name="stream")


def _one_by_one(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[_Part, None, None]:
    for part in _parts(probe, ticks, timeout):
        yield part, pictures_at(probe, part, size, lambda pts: False, timeout)


def _in_one_pass(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[_Part, None, None]:
    """The same, with every picture of the file decoded once."""
    painter, part, pictures = RgbConverter(), list[int](), DecodedPictures()
    with open_container(probe.path, deadline := Deadline(timeout)) as container:
        reader = Reader(
            container,
            probe.path,
            deadline,
            is_strict=probe.is_strict,
            threads=min(processors(), MOST_THREADS),
        )
        for left, (tick, pts, picture) in zip(
            range(len(ticks) - 1, -1, -1), reader.on_display(ticks), strict=True
        ):
            part.append(tick)
            if picture is None or pts is None:
                pictures.damaged.add(tick)
            else:
                pictures.at[tick] = pts
                if pts not in pictures.images:
                    pictures.images[pts] = painter.rgb(picture, size, probe.shape, reader.pixels)
            if len(part) == _PICTURES_PER_PART or left == 0:
                add_stand_ins(pictures, probe, size, lambda pts: False, timeout)
                yield part, pictures
                part, pictures = [], DecodedPictures()
            # Only now: the consumer may have taken its time.
            deadline.renew()


def _by_processes(
    pool: DecodingProcesses, probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[_Part, None, None]:
    """The parts' pictures in order. Each process has a part, and one more waits."""
    parts = _parts(probe, ticks, timeout)
    ahead: deque[PartInProcess] = deque()
    try:
        while True:
            for part in islice(parts, pool.count + 1 - len(ahead)):
                ahead.append(pool.decode(probe, part, size, timeout))
            if not ahead:
                return
            yield ahead[0].ticks, ahead[0].result()
            ahead.popleft()
    finally:
        parts.close()
        for part_in_process in ahead:
            part_in_process.cancel()


def _parts(probe: Probe, ticks: Sequence[int], timeout: float) -> Generator[list[int], None, None]:
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
