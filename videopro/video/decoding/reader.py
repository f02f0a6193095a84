"""One open container and its decoder: packets in decoding order, and the key frames to start from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import av.error
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from videopro.video.decoding import h264
from videopro.video.decoding.opening import MAX_PIXELS, Deadline, video_stream

SEEKABLE = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "flv", "mpegts"})
"""Containers whose timestamps stay the same after a seek. In others (MPEG program streams) FFmpeg guesses
them again."""


@dataclass(frozen=True)
class SeekPoint:
    """A key frame to decode from."""

    key: int
    """Its timestamp in ticks."""
    target: int
    """The tick to seek to in order to reach it."""


class Reader:
    """Reads packets and pictures, checking the deadline at every packet. For a single thread."""

    def __init__(self, container: InputContainer, path: Path, deadline: Deadline, threads: int = 1) -> None:
        self.container = container
        self.path = path
        self.deadline = deadline
        self.stream: VideoStream = video_stream(container, path)
        self.context: VideoCodecContext = self.stream.codec_context
        # For the decoder too: a stream may change to larger pictures than its header gives.
        self.context.options = {"max_pixels": str(MAX_PIXELS)}
        # Frame threads would decode ahead of every seek for nothing.
        self.context.thread_type = "SLICE"
        self.context.thread_count = threads
        self.is_h264 = self.context.codec.canonical_name == "h264"
        self._length = h264.length_size(self.context.extradata) if self.is_h264 else 0
        # In ticks.
        self._second = max(1, int(1 / (self.stream.time_base or 1)))

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets from the current position to the end, in decoding order."""
        for packet in self.container.demux(self.stream):
            self.deadline.check(self.path)
            if packet.size:
                yield packet

    def pictures(self) -> Iterator[VideoFrame]:
        """Every picture from the current position to the end, in display order."""
        for packet in self.packets():
            yield from self.context.decode(packet)
        yield from self.context.decode(None)

    def on_display(self, ticks: Iterable[int]) -> Iterator[tuple[int, int, VideoFrame]]:
        """Each of the ascending ticks with the timestamp of the picture on display at it, and the picture, of
        those from the current position on; none if there is no picture."""
        waiting = deque(ticks)
        before: tuple[int, VideoFrame] | None = None
        renewed: int | None = None
        for picture in self.pictures():
            pts = timestamp(picture)
            if pts is None or (before is not None and pts <= before[0]):
                continue
            # A picture late in a long file is no slow one. A second at a time, so that there is an end to it.
            if renewed is None or pts >= renewed + self._second:
                renewed = pts
                self.deadline.renew()
            while before is not None and waiting and waiting[0] < pts:
                yield waiting.popleft(), *before
            if not waiting:
                return
            before = (pts, picture)
        while before is not None and waiting:
            yield waiting.popleft(), *before

    def is_start(self, packet: Packet[VideoStream]) -> bool:
        """Whether decoding can start at this packet and is exact."""
        if not packet.is_keyframe or packet.pts is None:
            return False
        return not self.is_h264 or h264.is_clean_start(bytes(packet), self._length)

    def is_needless(self, packet: Packet[VideoStream]) -> bool:
        """Whether no other picture refers to this one. False for codecs other than H.264: HEVC says so only
        within a temporal layer, others not at all."""
        return self.is_h264 and not h264.is_reference(bytes(packet), self._length)

    def start_before(self, tick: int, first: int) -> SeekPoint | None:
        """The last key frame at or before a tick, as far as the container knows; None if seeking finds none.

        `first` is the tick of the video's first picture: no earlier key frame is searched for.
        """
        second = self._second
        # Transport streams are searched by decoding time, which is earlier: their start lies well before the
        # first picture.
        earliest = first - 10 * second
        target, step = tick, second
        while True:
            try:
                self.container.seek(target, stream=self.stream)
            except (av.error.PermissionError, av.error.OSError, av.error.InvalidDataError):
                return None
            for packet in self.packets():
                if packet.pts is None or (packet.dts is not None and packet.dts > tick):
                    break
                # Without an index in the container, a seek may land between key frames.
                if packet.pts <= tick and self.is_start(packet):
                    return SeekPoint(packet.pts, target)
            if target <= earliest:
                return None
            # Twice as far each time: a few seeks reach back over any group of pictures.
            target, step = max(earliest, target - step), 2 * step

    def packets_from(self, start: SeekPoint) -> Iterator[Packet[VideoStream]]:
        """The packets from a key frame on; none if it is not found again."""
        self.container.seek(start.target, stream=self.stream)
        is_past_key = False
        for packet in self.packets():
            is_past_key = is_past_key or (packet.pts == start.key and packet.is_keyframe)
            if is_past_key:
                yield packet


def timestamp(item: VideoFrame | Packet[VideoStream]) -> int | None:
    """When a picture is shown, in ticks; the decoding time in containers without presentation times."""
    return item.pts if item.pts is not None else item.dts
