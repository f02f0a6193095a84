"""Finds exactly the pictures on display at given ticks, with as little decoding as possible.

For each tick: seek to the key frame before it, read packets until none that follows can be shown earlier,
choose by presentation timestamp, decode in decoding order up to the chosen picture. Ticks of one group of
pictures are decoded together; pictures that nothing refers to are skipped; groups are distributed over
threads, each with its own container.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

import av.error
import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from videopro.errors import VideoError
from videopro.video.decoding.opening import Deadline, open_container
from videopro.video.decoding.picture import RgbConverter
from videopro.video.decoding.probe import Probe
from videopro.video.decoding.reader import Reader, SeekPoint, timestamp

# Bytes of packets of a group that are kept between choosing and decoding; a larger group is read twice.
_HELD_BYTES = 64 * 2**20
# How often an earlier key frame is tried if the nearest does not lead to the picture (gradual refresh, open
# groups).
_RETRIES = 3
MOST_THREADS = 8
"""Threads that decode one video's pictures at a time."""


@dataclass
class DecodedPictures:
    """The pictures for the requested ticks."""

    at: dict[int, int] = field(default_factory=dict)
    """Requested tick -> timestamp of the picture on display."""
    images: dict[int, np.ndarray] = field(default_factory=dict)
    """Timestamp -> (height, width, 3) uint8 RGB, read-only."""
    damaged: set[int] = field(default_factory=set)
    """Requested ticks at which the picture is damaged. If another stands in for it, `at` has that one."""


@dataclass
class _Group:
    """Ticks that are decoded together."""

    ticks: list[int]
    start: SeekPoint | None
    """Where to start; None: decode from the start of the file without seeking."""


class _NotSeekable(Exception):
    """Seeking does not find the key frame again, or packets lack presentation times: decode in order."""


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pictures_at(
    probe: Probe,
    ticks: Sequence[int],
    size: tuple[int, int],
    is_cached: Callable[[int], bool],
    timeout: float,
    threads: int | None = None,
) -> DecodedPictures:
    """The pictures on display at `ticks` (any order, within the video), as RGB of `size` (height, width).
    Where one is damaged, the nearest intact one within `probe.nearest_intact` stands in.

    Pictures whose timestamp `is_cached` are found but not decoded. At most `threads` decode (None: one for
    each processor). Raises VideoError if a picture is damaged and none stands in, or if no picture was
    decoded for `timeout` seconds.
    """
    pictures = intact_pictures_at(probe, ticks, size, is_cached, timeout, threads)
    add_stand_ins(pictures, probe, size, is_cached, timeout)
    return pictures


def intact_pictures_at(
    probe: Probe,
    ticks: Iterable[int],
    size: tuple[int, int],
    is_cached: Callable[[int], bool],
    timeout: float,
    threads: int | None = None,
) -> DecodedPictures:
    """As `pictures_at`, without those that are damaged, whose ticks are named."""
    cpus, pictures = threads or processors(), DecodedPictures()
    lock, failures, deadlines = threading.Lock(), list[BaseException](), [Deadline(timeout)]

    def work(reader: Reader) -> None:
        worker = _GroupDecoder(reader, probe, size, is_cached, pictures)
        while True:
            with lock:
                if failures or not groups:
                    return
                group = groups.popleft()
            worker.decode(group)

    def work_with_own_reader(deadline: Deadline) -> None:
        try:
            with open_container(probe.path, deadline) as container:
                work(Reader(container, probe.path, deadline, is_strict=probe.is_strict))
        except BaseException as failure:
            failures.append(failure)

    with open_container(probe.path, deadlines[0]) as container:
        reader = Reader(container, probe.path, deadlines[0], is_strict=probe.is_strict)
        groups = deque(_plan(reader, sorted(set(ticks)), probe))
        workers = min(len(groups), cpus, MOST_THREADS)
        if workers == 1:
            # With one group there is nothing to distribute: the decoder then splits each picture into slices
            # itself.
            reader.use_threads(cpus)
        deadlines += [Deadline(timeout) for _ in range(workers - 1)]
        helpers = [
            threading.Thread(target=work_with_own_reader, args=(each,), daemon=True) for each in deadlines[1:]
        ]
        for helper in helpers:
            helper.start()
        try:
            work(reader)
        except BaseException:
            for deadline in deadlines:
                deadline.cancel()
            raise
        finally:
            for helper in helpers:
                helper.join()
    if failures:
        raise failures[0]
    return pictures


# ---- damage -----------------------------------------------------------------------------------------------

# Of pictures that are decoded only to learn whether they are intact.
_TINY = (8, 8)
# Seconds on each side of a damaged picture in which the end of the damage is searched at first.
_AROUND = 4


def add_stand_ins(
    pictures: DecodedPictures,
    probe: Probe,
    size: tuple[int, int],
    is_cached: Callable[[int], bool],
    timeout: float,
) -> None:
    """Add the nearest intact picture for each damaged one. Raises VideoError if `probe.nearest_intact` has
    none."""
    reach, lost = int(Fraction(probe.nearest_intact) / probe.time_base), pictures.damaged
    if not lost:
        return
    near = set[int]()
    for tick in lost if reach else ():
        near |= _times_between(probe, tick - reach, tick + reach, timeout)
    intact = intact_pictures_at(probe, near, _TINY, lambda pts: False, timeout).images.keys()
    for tick in sorted(lost):
        found = [pts for pts in intact if abs(pts - tick) <= reach]
        if not found:
            raise _damaged(probe, tick)
        pictures.at[tick] = min(found, key=lambda pts: (abs(pts - tick), pts))
    standing = {pictures.at[tick] for tick in lost}
    pictures.images.update(intact_pictures_at(probe, standing, size, is_cached, timeout).images)


def damaged_spans(probe: Probe, ticks: Iterable[int], timeout: float) -> list[tuple[int, int]]:
    """The damaged parts of a video (first tick, tick of the next intact picture or of the end) that some of
    these ticks meet, in order."""
    spans: list[tuple[int, int]] = []
    end = int((Fraction(probe.duration) + probe.origin) / probe.time_base)
    for tick in sorted(intact_pictures_at(probe, ticks, _TINY, lambda pts: False, timeout).damaged):
        if spans and tick < spans[-1][1]:
            continue
        reach = int(_AROUND / probe.time_base)
        while True:
            low, high = max(tick - reach, probe.first), min(tick + reach, end)
            times = _times_between(probe, low, high, timeout)
            intact = intact_pictures_at(probe, times, _TINY, lambda pts: False, timeout).images.keys()
            before = max((pts for pts in intact if pts <= tick), default=None)
            after = min((pts for pts in intact if pts > tick), default=None)
            if (before is not None or low == probe.first) and (after is not None or high == end):
                break
            reach *= 4
        start = min((pts for pts in times if before is None or before < pts), default=tick)
        spans.append((min(start, tick), end if after is None else after))
    return spans


def _times_between(probe: Probe, begin: int, end: int, timeout: float) -> set[int]:
    """The timestamps in begin..end of the pictures that the file holds, damaged or not."""
    times = set[int]()
    deadline = Deadline(timeout)
    with open_container(probe.path, deadline) as searched, open_container(probe.path, deadline) as whole:
        reader = Reader(searched, probe.path, deadline)
        start = reader.start_before(begin, probe.first) if probe.is_seekable else None
        from_start = Reader(whole, probe.path, deadline)
        for packet in reader.packets_from(start) if start else from_start.packets():
            pts = timestamp(packet)
            if pts is not None and begin <= pts <= end and not packet.is_discard:
                times.add(pts)
            if packet.dts is not None and packet.dts > end:
                break
    return times


def _damaged(probe: Probe, tick: int) -> VideoError:
    picture = f"{probe.path}: the frame at {probe.time(tick):.3f} s is damaged"
    if probe.nearest_intact:
        return VideoError(
            f"{picture}, and no frame within {probe.nearest_intact:g} s is intact; download or copy the file "
            "again, or set a larger --nearest-intact"
        )
    return VideoError(
        f"{picture}; download or copy the file again, or use the nearest intact frame with --nearest-intact "
        "SECONDS"
    )


# ---- groups -----------------------------------------------------------------------------------------------


def _plan(reader: Reader, ticks: list[int], probe: Probe) -> list[_Group]:
    """Ascending ticks, grouped by the key frame before them."""
    groups: dict[int | None, _Group] = {}
    for tick in ticks:
        start = reader.start_before(tick, probe.first) if probe.is_seekable else None
        groups.setdefault(start.key if start else None, _Group([], start)).ticks.append(tick)
    return list(groups.values())


@dataclass
class _Passage:
    """The packets from a key frame on that a group needs; indices count them in decoding order."""

    start: SeekPoint
    packets: list[Packet[VideoStream]] | None
    """None when they are too many to keep."""
    times: list[int]
    """Timestamp of each."""
    keys: list[int]
    """Indices of the key frames."""
    at: dict[int, int]
    """Tick -> timestamp shown."""
    index: dict[int, int]
    """Timestamp -> index."""


class _GroupDecoder:
    """Decodes groups with one reader, into `pictures`; for one thread."""

    def __init__(
        self,
        reader: Reader,
        probe: Probe,
        size: tuple[int, int],
        is_cached: Callable[[int], bool],
        pictures: DecodedPictures,
    ) -> None:
        self._reader = reader
        self._probe = probe
        self._size = size
        self._is_cached = is_cached
        self._pictures = pictures
        self._painter = RgbConverter()

    def decode(self, group: _Group) -> None:
        """Add the group's pictures and their timestamps to `pictures`."""
        reader, start, ticks, first = self._reader, group.start, group.ticks, self._probe.first
        reader.deadline.renew()
        if start is None:
            self._decode_in_order(ticks)
            return
        for attempt in range(_RETRIES + 1):
            try:
                passage = self._look(start, ticks)
            except _NotSeekable:
                self._decode_in_order(ticks)
                return
            missing = self._decode_passage(passage, from_first=attempt > 0)
            self._pictures.at.update({t: pts for t, pts in passage.at.items() if pts not in missing})
            ticks = [tick for tick in ticks if passage.at[tick] in missing]
            start = reader.start_before(start.key - 1, first) if ticks and start.key > first else None
            if start is None:
                break
        self._pictures.damaged.update(ticks)

    def _look(self, start: SeekPoint, ticks: list[int]) -> _Passage:
        """Read packets until no picture for `ticks` (ascending) can follow, and choose by presentation
        time."""
        packets: list[Packet[VideoStream]] | None = []
        held_bytes = 0
        times: list[int] = []
        keys: list[int] = []
        candidates: list[int] = []
        for packet in self._reader.packets_from(start):
            if packet.pts is None:
                raise _NotSeekable
            if self._reader.is_start(packet):
                keys.append(len(times))
            times.append(packet.pts)
            # An edit list keeps some packets for decoding only. Pictures shown before the first key frame
            # need an earlier one.
            if not packet.is_discard and packet.pts >= start.key:
                candidates.append(packet.pts)
            if packets is not None:
                packets.append(packet)
                held_bytes += packet.size
                if held_bytes > _HELD_BYTES:
                    packets = None
            # A picture is never shown before its decoding time: nothing for the last tick can follow.
            if packet.dts is not None and packet.dts > ticks[-1]:
                break
        if not candidates or min(candidates) > ticks[0]:
            raise _NotSeekable
        order = np.unique(candidates)
        at = {tick: int(order[np.searchsorted(order, tick, side="right") - 1]) for tick in ticks}
        # Reversed, so that of two packets with one timestamp the first one counts.
        index = {pts: i for i, pts in reversed(list(enumerate(times)))}
        return _Passage(start, packets, times, keys, at, index)

    def _decode_passage(self, passage: _Passage, from_first: bool) -> set[int]:
        """Decode the pictures for the passage's ticks; returns the timestamps that could not be decoded.

        Each picture is decoded from the last key frame before it, in decoding order and in time, or from the
        passage's first (`from_first`).
        """
        times = passage.times
        indices = sorted(passage.index[pts] for pts in set(passage.at.values()) if not self._is_cached(pts))
        runs: dict[int, list[int]] = {}
        for index in indices:
            earlier = (key for key in passage.keys if key <= index and times[key] <= times[index])
            key = 0 if from_first else max(earlier)
            runs.setdefault(key, []).append(index)
        missing = set[int]()
        for key, run in runs.items():
            stored = passage.packets
            packets = stored if stored is not None else self._reader.packets_from(passage.start)
            intact = self._decode_run(islice(packets, key, run[-1] + 1), key, set(run), passage)
            missing |= {times[index] for index in run} - intact
        return missing

    def _decode_run(
        self, packets: Iterable[Packet[VideoStream]], key: int, run: set[int], passage: _Passage
    ) -> set[int]:
        """Decode `packets`, the first of which has index `key`; returns the timestamps of `run` that are
        intact."""
        times, context = passage.times, self._reader.context
        decoded: dict[int, np.ndarray] = {}
        sent: set[int] = set()
        returned: set[int] = set()
        corrupt: set[int] = set()

        def take(pictures: list[VideoFrame]) -> None:
            for picture in pictures:
                index = passage.index.get(picture.pts) if picture.pts is not None else None
                if index is None:
                    continue
                returned.add(index)
                if picture.is_corrupt:
                    corrupt.add(index)
                elif index in run:
                    decoded[index] = self._rgb(picture)
                    self._reader.deadline.renew()

        context.flush_buffers()
        for index, packet in enumerate(packets, key):
            if packet.is_corrupt:  # a transport stream lost something here
                corrupt.add(index)
            if index not in run and self._reader.is_needless(packet):
                continue
            self._reader.deadline.check(self._probe.path)
            # Pictures cut by an edit list are decoded but never returned.
            if not packet.is_discard and self._reader.gives_picture(packet):
                sent.add(index)
            try:
                take(context.decode(packet))
            except av.error.InvalidDataError:
                corrupt.add(index)
        with contextlib.suppress(av.error.InvalidDataError):  # missing pictures are detected below
            take(context.decode(None))
        context.flush_buffers()
        if not self._probe.interlaced:
            corrupt |= sent - returned  # a missing picture was damaged and dropped
        # Pictures shown before the key frame may refer to pictures that were not decoded, and no later
        # picture refers to them. Any other damage spoils everything after it in decoding order.
        limit = min((index for index in corrupt if times[index] >= times[key]), default=len(times))
        intact = {times[index]: image for index, image in decoded.items() if index < limit}
        self._pictures.images.update(intact)
        return set(intact)

    def _rgb(self, picture: VideoFrame) -> np.ndarray:
        return self._painter.rgb(picture, self._size, self._probe.shape, self._reader.pixels)

    def _decode_in_order(self, ticks: list[int]) -> None:
        """Fallback: decode every picture from the start of the file."""
        at, images = self._pictures.at, self._pictures.images
        with open_container(self._probe.path, self._reader.deadline) as container:
            reader = Reader(
                container, self._probe.path, self._reader.deadline, is_strict=self._probe.is_strict
            )
            for tick, pts, picture in reader.on_display(ticks):
                if picture is None or pts is None:
                    continue
                at[tick] = pts
                if pts not in images and not self._is_cached(pts):
                    images[pts] = self._rgb(picture)
                    self._reader.deadline.renew()
        self._pictures.damaged.update(set(ticks) - at.keys())
