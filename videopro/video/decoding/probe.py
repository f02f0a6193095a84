"""Probes a file once when it is opened: its stream, its true start and end, its upright size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from av.container import InputContainer
from av.video.stream import VideoStream

from videopro.errors import VideoError
from videopro.video.decoding.clocks import Clocks, check_clocks, differing
from videopro.video.decoding.opening import Deadline, check_complete, check_file, content_id, open_container
from videopro.video.decoding.picture import Orientation, Shape, square_or
from videopro.video.decoding.reader import SEEKABLE, Reader, timestamp


@dataclass(frozen=True)
class Probe:
    """Facts about a video file. Ticks are units of `time_base`, as the stream's timestamps are."""

    path: Path
    id: str
    size: int
    """Bytes of the file; with `modified` (ns) it shows whether the file has changed."""
    modified: int
    codec: str
    time_base: Fraction
    """Seconds per tick."""
    origin: Fraction
    """The file's start offset in seconds: where its earliest audio or video track starts."""
    first: int
    """Tick at which the first picture is shown."""
    last: int
    """Tick at which the last picture is shown."""
    duration: float
    """Seconds from the origin to the end of the last picture."""
    fps: float
    shape: Shape
    interlaced: bool
    is_seekable: bool
    """Whether a search in the file leads to a picture, with the timestamps that it has."""
    is_strict: bool
    """Whether whatever the decoder finds wrong in a packet is damage: that of HEVC does not tell of damage
    otherwise."""
    notes: tuple[str, ...] = ()
    """Harmless oddities of the file's times."""
    nearest_intact: float = 0.0
    """Within how many seconds of the time asked for an intact picture stands in for a damaged one; 0: none
    does."""

    def tick(self, time: float) -> int:
        """The last tick at or before `time` seconds, within the video.

        A nanosecond is tolerated, so that a picture's own time, rounded to a float, finds that picture.
        """
        # In whole numbers, as exact as fractions in a fiftieth of the time.
        (parts, of), (offset, offset_of) = time.as_integer_ratio(), self._offset
        ticks = (parts * offset_of + offset * of) * self.time_base.denominator
        tick = ticks // (of * offset_of * self.time_base.numerator)
        return min(max(tick, self.first), self.last)

    @cached_property
    def _offset(self) -> tuple[int, int]:
        return (self.origin + Fraction(1, 10**9)).as_integer_ratio()

    def time(self, tick: int) -> float:
        """Seconds from the origin."""
        (base, base_of), (origin, origin_of) = (
            each.as_integer_ratio() for each in (self.time_base, self.origin)
        )
        return (tick * base * origin_of - origin * base_of) / (base_of * origin_of)

    def check_unchanged(self) -> None:
        """Raise VideoError if the file has changed since it was probed: its pictures would pass for those of
        the file before."""
        try:
            state = os.stat(self.path)
        except OSError:
            raise VideoError(f"{self.path}: no longer exists; it was opened before") from None
        if (state.st_size, state.st_mtime_ns) != (self.size, self.modified):
            raise VideoError(f"{self.path}: has changed since it was opened; open it again")


def probe_video(path: Path, timeout: float) -> Probe:
    """Open, decode the first picture, read the last packets. Raises VideoError for an unusable file, within
    `timeout` seconds (plus at most one disk read)."""
    deadline = Deadline(timeout)
    state = check_file(path)
    try:
        identity = content_id(path)
        check_complete(path, state.st_size)
    except OSError as error:
        raise VideoError(
            f"{path}: cannot be read ({error.strerror}); check its permissions and the disk"
        ) from None
    with open_container(path, deadline) as container:
        reader = Reader(container, path, deadline)
        stream = reader.stream
        # AVI stores packets in decoding order, without presentation times.
        if container.format.name == "avi" and reader.is_h264 and reader.context.has_b_frames:
            raise VideoError(
                f"{path}: AVI does not store the times of H.264 B-frames; convert it (ffmpeg -i IN.avi "
                "OUT.mp4)"
            )
        _check_index(stream, path, state.st_size)
        clocks = _clocks(container, path, state.st_size)
        picture, first = reader.first_picture()
        if picture is None:
            raise VideoError(f"{path}: its video track contains no frames; download or copy it again")
        if first is None or stream.time_base is None:
            raise VideoError(
                f"{path}: its frames have no timestamps; remux it into an MP4 or Matroska container"
            )
        time_base = stream.time_base
        starts = [first * time_base] + [
            s.start_time * s.time_base
            for s in container.streams
            if s.type == "audio" and s.start_time is not None and s.time_base
        ]
        # Players start at the earliest of sound and pictures, and subtitles and annotations count from there.
        origin = min(starts)
        last, end, fps = _end(reader, first)
        shape = Shape(
            (picture.height, picture.width),
            square_or(stream.sample_aspect_ratio),
            square_or(reader.pixels),
            Orientation.of(picture),
        )
        return Probe(
            path=path,
            id=identity,
            size=state.st_size,
            modified=state.st_mtime_ns,
            codec=stream.codec_context.codec.canonical_name,
            time_base=time_base,
            origin=origin,
            first=first,
            last=last,
            duration=float(end * time_base - origin),
            fps=fps,
            shape=shape,
            interlaced=picture.interlaced_frame,
            is_seekable=container.format.name in SEEKABLE,
            is_strict=reader.codec == "hevc" and _is_strict(path, deadline, timestamp(picture)),
            notes=(*clocks.notes, *differing(clocks.stated, float((end - first) * time_base))),
        )


def _is_strict(path: Path, deadline: Deadline, first: int | None) -> bool:
    """Whether the decoder finds nothing wrong in the first picture, which is at that tick: encoders may write
    side data that it does not understand with each picture."""
    with open_container(path, deadline) as container:
        picture, _ = Reader(container, path, deadline, is_strict=True).first_picture()
        return picture is not None and timestamp(picture) == first


def _clocks(container: InputContainer, path: Path, size: int) -> Clocks:
    try:
        return check_clocks(container, path, size)
    except OSError as error:
        raise VideoError(
            f"{path}: cannot be read ({error.strerror}); check its permissions and the disk"
        ) from None


def _check_index(stream: VideoStream, path: Path, size: int) -> None:
    """Raise VideoError for an index entry beyond the end of the file: the data are missing."""
    entries = stream.index_entries
    if len(entries) and entries[-1].pos + entries[-1].size > size:
        raise VideoError(
            f"{path}: is truncated: its index points beyond its {size} bytes; download or copy it again"
        )


def _end(reader: Reader, first: int) -> tuple[int, int, float]:
    """(tick of the last picture, tick of its end, average rate), from the packets, because headers can be
    wrong."""
    stream = reader.stream
    assert stream.time_base is not None
    claimed = stream.duration
    if claimed is None and reader.container.duration is not None:
        claimed = int(Fraction(reader.container.duration, 1_000_000) / stream.time_base)
    # Read from the last key frame before the header's end to the real end; without such a header or key
    # frame, from the start.
    start = reader.start_before(first + claimed, first) if claimed else None
    if start is None:
        reader.container.seek(first, stream=stream)
    last, length, last_read = first, 0, 0
    is_last_read = True
    for packet in reader.packets_from(start) if start else reader.packets():
        pts = timestamp(packet)
        if pts is None or packet.is_discard:
            continue
        last_read, is_last_read = packet.duration or 0, pts >= last
        if is_last_read:
            last, length = pts, last_read
    rate = stream.average_rate or stream.guessed_rate
    # MP4 has the time up to the next picture in decoding order. At a variable rate, that of a picture that is
    # decoded before others but shown after them may be any other picture's.
    is_mp4 = reader.container.format.name.startswith("mov,")
    if is_mp4 and not is_last_read and rate and length > 2 / (rate * stream.time_base):
        length = last_read
    # Many containers give no duration for a packet, as MPEG program streams.
    if length <= 0 and rate:
        length = round(1 / (rate * stream.time_base))
    end = last + length
    fps = float(rate) if rate else float(1 / (max(1, end - first) * stream.time_base))
    return last, end, fps
