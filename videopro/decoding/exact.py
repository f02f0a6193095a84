"""The pictures on display at given ticks, exactly, for as little decoding as exactness allows.

For each tick: seek to the key frame before it, read packets until none that follows can be shown earlier,
choose by presentation timestamp, decode in decoding order up to the chosen picture. Ticks of one group of
pictures are decoded in one go; pictures that nothing refers to are skipped; groups are shared out over
threads, a container each.

Knows packets, pictures and threads. Must not know stores or sampling.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import av.error
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from videopro.decoding.opening import MAX_PIXELS, Deadline, opened, video_stream
from videopro.decoding.picture import Painter
from videopro.decoding.probe import Probe, timestamp
from videopro.errors import VideoError

# Codecs in which FFmpeg's "skip what is not a reference" leaves out only pictures that no other picture
# needs. H.264 says so of each picture (nal_ref_idc 0). HEVC says it only within a temporal layer, so it is
# decoded in full.
_SKIPPABLE = frozenset({"h264"})
# Packets of one group that are kept between choosing and decoding; a longer group is read a second time
# instead.
_HELD_BYTES = 64 * 2**20
# Groups that are tried further back when the nearest key frame does not lead to the picture (gradual
# refresh).
_RETRIES = 3
_MOST_WORKERS = 8


@dataclass
class Shown:
    """What was found for the ticks that were asked for."""

    at: dict[int, int] = field(default_factory=dict)
    """Tick asked for -> timestamp of the picture on display."""
    images: dict[int, np.ndarray] = field(default_factory=dict)
    """Timestamp -> (height, width, 3) uint8 RGB, read-only."""


@dataclass
class _Group:
    """Ticks that are decoded in one go."""

    ticks: list[int]
    start: _Start | None
    """Where to start; None: at the start of the file, in order, without seeking."""


@dataclass(frozen=True)
class _Start:
    """A key frame, and the tick to seek to so that it comes."""

    key: int
    target: int


class _NoTimes(Exception):
    """The container gives its packets no presentation times: only decoding in order tells them."""


class _Reader:
    """One open container and its decoder; for one thread."""

    def __init__(self, container: InputContainer, probe: Probe, timeout: float, threads: int) -> None:
        self.container = container
        self.probe = probe
        self.deadline = Deadline(timeout)
        self.stream: VideoStream = video_stream(container, probe.path)
        context = self.stream.codec_context
        context.thread_type = "SLICE"  # threads by frame would decode ahead of every seek, for nothing
        context.thread_count = threads
        # Damage must be told, not painted over.
        context.options = {"err_detect": "explode", "max_pixels": str(MAX_PIXELS)}
        self.context = context
        self.skips = context.codec.canonical_name in _SKIPPABLE and not probe.interlaced

    def packets(self) -> Iterator[Packet]:
        """The packets from here on."""
        for packet in self.container.demux(self.stream):
            self.deadline.check(self.probe.path)
            if packet.size:
                yield packet

    def start_before(self, tick: int) -> _Start | None:
        """A key frame from which the picture at a tick can be decoded; None if seeking finds none."""
        target, step = tick, max(1, int(1 / self.probe.time_base))
        while True:
            try:
                self.container.seek(target, stream=self.stream)
            except (av.error.PermissionError, av.error.OSError, av.error.InvalidDataError):
                return None
            for packet in self.packets():
                if packet.pts is None or (packet.dts is not None and packet.dts > tick):
                    break
                # In a container without an index, a seek may land between key frames.
                if packet.is_keyframe and packet.pts <= tick:
                    return _Start(packet.pts, target)
            if target <= self.probe.first:
                return None
            target, step = max(self.probe.first, target - step), 2 * step

    def packets_from(self, start: _Start) -> Iterator[Packet]:
        """The packets from that key frame on; none when it does not come."""
        self.container.seek(start.target, stream=self.stream)
        found = False
        for packet in self.packets():
            found = found or (packet.is_keyframe and packet.pts == start.key)
            if found:
                yield packet


def shown_at(
    probe: Probe,
    ticks: Sequence[int],
    size: tuple[int, int],
    known: Callable[[int], bool],
    timeout: float,
) -> Shown:
    """The pictures on display at `ticks` (any order, within the video), as RGB of `size` (height, width).

    Pictures for whose timestamp `known` is true are found but not decoded. `VideoError` when the data of a
    wanted picture are damaged, or when no picture came for `timeout` seconds.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shown = Shown()
    lock, failures, stop = threading.Lock(), list[BaseException](), threading.Event()

    def work(reader: _Reader) -> None:
        painter = Painter()

        def keep(pts: int, picture: VideoFrame) -> None:
            shown.images[pts] = painter.rgb(picture, *size, probe.turn)
            reader.deadline.renew()

        while not stop.is_set():
            with lock:
                if not groups:
                    return
                group = groups.popleft()
            reader.deadline.renew()
            shown.at.update(_decode(reader, group, known, keep))

    def work_apart() -> None:
        try:
            with opened(probe.path, Deadline(timeout)) as own:
                work(_Reader(own, probe, timeout, 1))
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    with opened(probe.path, Deadline(timeout)) as container:
        reader = _Reader(container, probe, timeout, 1)
        groups = deque(_plan(reader, sorted(set(ticks))))
        workers = min(len(groups), cpus, _MOST_WORKERS)
        if workers == 1:
            reader.context.thread_count = cpus
        threads = [threading.Thread(target=work_apart, name="videopro-decode") for _ in range(workers - 1)]
        for thread in threads:
            thread.start()
        try:
            work(reader)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
    return shown


def _plan(reader: _Reader, ticks: list[int]) -> list[_Group]:
    """Ascending ticks, grouped by the key frame before them."""
    groups: dict[int | None, _Group] = {}
    for tick in ticks:
        start = reader.start_before(tick)
        groups.setdefault(start.key if start else None, _Group([], start)).ticks.append(tick)
    return list(groups.values())


def _decode(
    reader: _Reader, group: _Group, known: Callable[[int], bool], keep: Callable[[int, VideoFrame], None]
) -> dict[int, int]:
    """Decode a group; which picture is shown at each of its ticks."""
    start = group.start
    for _ in range(_RETRIES + 1):
        if start is None:
            break
        try:
            at, missing = _decode_from(reader, start, group.ticks, known, keep)
        except _NoTimes:
            start = None
            break
        if not missing:
            return at
        if start.key <= reader.probe.first:
            raise _damaged(reader.probe, missing[0])
        start = reader.start_before(start.key - 1)
    if start is not None:
        raise _damaged(reader.probe, missing[0])
    return _decode_in_order(reader, group.ticks, known, keep)


def _decode_from(
    reader: _Reader,
    start: _Start,
    ticks: list[int],
    known: Callable[[int], bool],
    keep: Callable[[int, VideoFrame], None],
) -> tuple[dict[int, int], list[int]]:
    """(tick -> timestamp shown, timestamps that did not come out of the decoder)."""
    held: list[Packet] | None = []
    held_bytes = 0
    times: list[int] = []
    keys: list[int] = []
    candidates: list[int] = []
    for packet in reader.packets_from(start):
        if packet.pts is None or packet.dts is None:
            raise _NoTimes
        if packet.is_keyframe:
            keys.append(len(times))
        times.append(packet.pts)
        # An edit list keeps some packets for decoding only. What is shown before the key frame needs an
        # earlier one.
        if not packet.is_discard and packet.pts >= start.key:
            candidates.append(packet.pts)
        if held is not None:
            held.append(packet)
            held_bytes += packet.size
            if held_bytes > _HELD_BYTES:
                held = None
        if (
            packet.dts > ticks[-1]
        ):  # a picture is never shown before its decoding time: nothing earlier can follow
            break
    if not candidates or min(candidates) > ticks[0]:
        raise VideoError(
            f"{reader.probe.path}: seeking in it is unreliable; remux it (ffmpeg -i IN -c copy OUT.mp4)"
        )
    order = np.unique(candidates)
    at = {tick: int(order[np.searchsorted(order, tick, side="right") - 1]) for tick in ticks}
    place = {pts: index for index, pts in reversed(list(enumerate(times)))}
    wanted = {place[pts] for pts in set(at.values()) if not known(pts)}
    missing = {times[index] for index in wanted}

    # Each wanted picture from the last key frame before it in decoding order and in time.
    runs: dict[int, list[int]] = {}
    for index in sorted(wanted):
        key = max(k for k in keys if k <= index and times[k] <= times[index])
        runs.setdefault(key, []).append(index)

    def take(pictures: list[VideoFrame], limit: int) -> None:
        for picture in pictures:
            pts = picture.pts
            if pts in missing and place[pts] < limit and not picture.is_corrupt:
                missing.discard(pts)
                keep(pts, picture)

    packets = iter(held) if held is not None else reader.packets_from(start)
    at_index = -1
    context = reader.context
    for key, run in runs.items():
        context.flush_buffers()
        if (
            at_index >= key
        ):  # a run that begins before the end of the last one: only with odd orders of key frames
            packets = iter(held) if held is not None else reader.packets_from(start)
            at_index = -1
        here, limit = set(run), len(times)
        for packet in packets:
            at_index += 1
            if at_index < key:
                continue
            if reader.skips:
                context.skip_frame = "DEFAULT" if at_index in here else "NONREF"
            try:
                take(context.decode(packet), limit)
            except av.error.InvalidDataError:
                # What is shown before the key frame may refer to what was not decoded, and nothing after it
                # refers to that. Any other damage spoils what follows.
                if times[at_index] >= times[key]:
                    limit = at_index
                    break
            if at_index == run[-1] or not missing:
                break
        with contextlib.suppress(av.error.InvalidDataError):  # told by what is missing
            take(context.decode(None), limit)
    context.flush_buffers()
    return at, sorted(missing)


def _decode_in_order(
    reader: _Reader, ticks: list[int], known: Callable[[int], bool], keep: Callable[[int, VideoFrame], None]
) -> dict[int, int]:
    """The straightforward way: every picture from the start of the file."""
    probe = reader.probe
    at: dict[int, int] = {}
    waiting = deque(ticks)
    before: VideoFrame | None = None
    before_time = 0

    def settle(until: int | None) -> None:
        """Give the picture at hand to the ticks before `until` (None: to all)."""
        while waiting and before is not None and (until is None or until > waiting[0]):
            at[waiting.popleft()] = before_time
            if before_time not in at_once:
                at_once.add(before_time)
                if not known(before_time):
                    keep(before_time, before)

    at_once: set[int] = set()
    with opened(probe.path, Deadline(reader.deadline.seconds)) as container:
        own = _Reader(container, probe, reader.deadline.seconds, 1)
        for picture in _pictures(own):
            shown = timestamp(picture)
            if shown is None or (before is not None and shown <= before_time):
                continue
            settle(shown)
            if not waiting:
                break
            before, before_time = picture, shown
        settle(None)
    if waiting:
        raise _damaged(probe, waiting[0])
    return at


def _pictures(reader: _Reader) -> Iterator[VideoFrame]:
    for packet in reader.packets():
        yield from reader.context.decode(packet)
    yield from reader.context.decode(None)


def _damaged(probe: Probe, pts: int) -> VideoError:
    return VideoError(
        f"{probe.path}: the data of the picture at {probe.time(pts):.3f} s are damaged; "
        "download or copy the file again"
    )
