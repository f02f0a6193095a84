"""One open container and its decoder: packets in decoding order, and the key frames to start from."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av.error
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from videopro.video.decoding.opening import MAX_PIXELS, Deadline, video_stream

# How many pictures may be decoded before one that is shown earlier: of these codecs, and of all older ones.
_REORDERED, _REORDERED_OF_OLD = {"h264": 16, "hevc": 16}, 2
_ONE_A_PACKET = ("hevc", "mpeg4", "mpeg1video", "mpeg2video")
# Bytes.
_TINY_PACKET = 32
# With fewer or more, these decoders do not tell of all damage.
_THREADS = {"hevc": 1, "vp8": 2}
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
    """Reads packets and pictures, checking the deadline at every packet. For a single thread. `is_strict`:
    whatever the decoder finds wrong in a packet is an error."""

    def __init__(
        self,
        container: InputContainer,
        path: Path,
        deadline: Deadline,
        *,
        is_strict: bool = False,
        threads: int = 1,
    ) -> None:
        self.container = container
        self.path = path
        self.deadline = deadline
        self.stream: VideoStream = video_stream(container, path)
        self.context: VideoCodecContext = self.stream.codec_context
        # For the decoder too: a stream may change to larger pictures than its header gives.
        strict = {"err_detect": "explode"} if is_strict else {}
        self.context.options = {"max_pixels": str(MAX_PIXELS), **strict}
        # Frame threads would decode ahead of every seek for nothing.
        self.context.thread_type = "SLICE"
        self.codec = self.context.codec.canonical_name
        self.use_threads(threads)
        self.is_h264 = self.codec == "h264"
        self._length = length_size(self.context.extradata) if self.is_h264 else 0
        # In ticks.
        self._second = max(1, int(1 / (self.stream.time_base or 1)))

    def use_threads(self, count: int) -> None:
        """Decode with so many threads, unless damage would then depend on it. Before the first packet."""
        self.context.thread_count = _THREADS.get(self.codec, count)

    @property
    def pixels(self) -> Fraction | None:
        """Width over height of a pixel, as the packets say that were decoded last."""
        return self.stream.codec_context.sample_aspect_ratio

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets from the current position to the end, in decoding order."""
        for packet in self.container.demux(self.stream):
            self.deadline.check(self.path)
            if packet.size:
                yield packet

    def first_picture(self) -> tuple[VideoFrame | None, int | None]:
        """The first picture that can be decoded, and when the video starts: with that picture, or with the
        first packet, if what comes before it is damaged."""
        start: int | None = None
        # A recording may begin anywhere; what comes before its first key frame was never to be shown.
        is_recording = self.container.format.name in ("mpegts", "mpeg")
        for packet in chain(self.packets(), [None]):
            if start is None and packet is not None and not packet.is_discard:
                start = packet.pts if not is_recording or self.is_start(packet) else None
            with contextlib.suppress(av.error.InvalidDataError):
                for picture in self.context.decode(packet):
                    shown = timestamp(picture)
                    return picture, shown if shown is None or start is None else min(shown, start)
        return None, None

    def pictures(self) -> Iterator[VideoFrame | None]:
        """Every intact picture from the current position to the end, in display order; None where there are
        damaged ones, up to the next key frame."""
        held: deque[VideoFrame] = deque()
        most_held = _REORDERED.get(self.codec, _REORDERED_OF_OLD)
        is_lost = False
        for packet in self.packets():
            if is_lost and not packet.is_keyframe:
                continue
            is_lost = not self._decode_into(held, packet)
            if is_lost:
                # Those that were not given out yet may be decoded from the damaged one.
                held.clear()
                self.context.flush_buffers()
                yield None
            while len(held) > most_held:
                yield held.popleft()
        if not self._decode_into(held, None):
            held.clear()
            yield None
        yield from held

    def _decode_into(self, held: deque[VideoFrame], packet: Packet[VideoStream] | None) -> bool:
        """Add the pictures that the decoder returns for a packet; whether they are intact."""
        try:
            decoded = self.context.decode(packet)
        except av.error.InvalidDataError:
            return False
        held.extend(decoded)
        return not (packet is not None and packet.is_corrupt) and not any(each.is_corrupt for each in decoded)

    def on_display(self, ticks: Iterable[int]) -> Iterator[tuple[int, int | None, VideoFrame | None]]:
        """Each of the ascending ticks with the timestamp of the picture on display at it, and the picture, of
        those from the current position on; None and None where it is damaged."""
        waiting = deque(ticks)
        before: tuple[int, VideoFrame] | None = None
        renewed: int | None = None
        is_lost = False
        for picture in self.pictures():
            if picture is None:
                is_lost = True
                continue
            pts = timestamp(picture)
            if pts is None or (before is not None and pts <= before[0]):
                continue
            # A picture late in a long file is no slow one. A second at a time, so that there is an end to it.
            if renewed is None or pts >= renewed + self._second:
                renewed = pts
                self.deadline.renew()
            while waiting and waiting[0] < pts and (before is not None or is_lost):
                yield self._shown(waiting.popleft(), before, is_lost)
            if not waiting:
                return
            before, is_lost = (pts, picture), False
        while waiting and (before is not None or is_lost):
            yield self._shown(waiting.popleft(), before, is_lost)

    @staticmethod
    def _shown(
        tick: int, before: tuple[int, VideoFrame] | None, is_lost: bool
    ) -> tuple[int, int | None, VideoFrame | None]:
        """What is on display at a tick: the last picture before it, unless damaged ones may follow that."""
        if before is None or (is_lost and tick > before[0]):
            return tick, None, None
        return tick, *before

    def is_start(self, packet: Packet[VideoStream]) -> bool:
        """Whether decoding can start at this packet and is exact."""
        if not packet.is_keyframe or packet.pts is None:
            return False
        return not self.is_h264 or is_clean_start(bytes(packet), self._length)

    def is_needless(self, packet: Packet[VideoStream]) -> bool:
        """Whether no other picture refers to this one. False for codecs other than H.264: HEVC says so only
        within a temporal layer, others not at all."""
        return self.is_h264 and not is_reference(bytes(packet), self._length)

    def gives_picture(self, packet: Packet[VideoStream]) -> bool:
        """Whether the decoder returns a picture for this packet, unless it is damaged; False if that is not
        known. (Tiny packets of MPEG-4 say that the picture before stays.)"""
        return self.is_h264 or (self.codec in _ONE_A_PACKET and packet.size > _TINY_PACKET)

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


_SLICES = (1, 2, 5)  # nal_unit_type of a slice, of its first data partition, of an IDR slice
_IDR = 5
_SEI = 6
_RECOVERY_POINT = 6  # payloadType, D.1.8


def length_size(extradata: bytes | None) -> int:
    """Bytes of the length before each NAL unit (ISO/IEC 14496-15, 5.3.3.1); 0 for start codes (Annex B)."""
    if extradata and len(extradata) >= 7 and extradata[0] == 1:
        return (extradata[4] & 3) + 1
    return 0


def is_reference(packet: bytes, length: int) -> bool:
    """Whether other pictures may refer to this one: nal_ref_idc of its first slice is not 0.

    Also True if no slice is found: the decoder must then see the packet.
    """
    for at in _units(packet, length):
        if packet[at] & 0x1F in _SLICES:
            return packet[at] & 0x60 != 0
    return True


def is_clean_start(packet: bytes, length: int) -> bool:
    """Whether decoding can start at this key frame and is exact at once.

    False where a gradual refresh begins: a recovery point that lies some frames ahead.
    """
    for at in _units(packet, length):
        kind = packet[at] & 0x1F
        if kind == _IDR:
            return True
        # recovery_frame_cnt is the first field, in Exp-Golomb code: a leading one bit is 0.
        if kind == _SEI and packet[at + 1 : at + 2] == bytes([_RECOVERY_POINT]):
            return packet[at + 3 : at + 4] >= b"\x80"
    return True


def _units(packet: bytes, length: int) -> Iterator[int]:
    """Byte offset of each NAL unit, after its length or start code."""
    if length:
        at = 0
        while at + length < len(packet):
            yield at + length
            at += length + int.from_bytes(packet[at : at + length], "big")
    else:
        at = packet.find(b"\x00\x00\x01")
        while 0 <= at < len(packet) - 3:
            yield at + 3
            at = packet.find(b"\x00\x00\x01", at + 3)
