"""Streams the pictures at many ticks in one pass over the file, decoded ahead of their use.

The ticks are split at key frames, so that no picture is decoded twice.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import islice

import numpy as np

from videopro.errors import carrying_cancellation, check_cancelled
from videopro.video.decoding.exact import DecodedPictures, pictures_at
from videopro.video.decoding.opening import Deadline, open_container
from videopro.video.decoding.probe import Probe
from videopro.video.decoding.processes import DecodingProcesses, PartInProcess, decoding_processes
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
    (height, width). Many pictures are decoded by processes of their own, others by threads; their errors are
    raised here."""
    pool = decoding_processes(len(ticks))
    parts = (
        _by_thread(probe, ticks, size, timeout)
        if pool is None
        else _by_processes(pool, probe, ticks, size, timeout)
    )
    try:
        for part, pictures in parts:
            check_cancelled()
            for tick in part:
                yield pictures.at[tick], pictures.images[pictures.at[tick]]
    finally:
        parts.close()


def _by_processes(
    pool: DecodingProcesses, probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[tuple[list[int], DecodedPictures], None, None]:
    """The parts' pictures in order. Each process has a part, and one more waits."""
    parts = _parts(probe, ticks, timeout)
    ahead: deque[PartInProcess] = deque()
    try:
        while True:
            for part in islice(parts, pool.count + 1 - len(ahead)):
                ahead.append(pool.decode(probe, part, size, timeout))
            if not ahead:
                return
            first = ahead.popleft()
            yield first.ticks, first.result()
    finally:
        parts.close()
        for part_in_process in ahead:
            part_in_process.cancel()


def _by_thread(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float
) -> Generator[tuple[list[int], DecodedPictures], None, None]:
    """The parts' pictures in order, decoded by threads of this process."""
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

    thread = threading.Thread(target=carrying_cancellation(decode), daemon=True)
    thread.start()
    left = len(ticks)
    try:
        while left:
            part, result = ready.get()
            if isinstance(result, BaseException):
                raise result
            yield part, result
            left -= len(part)
    finally:
        stopped.set()
        thread.join()


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
