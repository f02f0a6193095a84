"""The sound of a video file, piece by piece: mono samples at the rate of speech recognizers, each at its own
time in the video.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import av.error
import numpy as np

from videopro.errors import SubtitleError
from videopro.video.decoding import Deadline, open_container, probe_video

SAMPLE_RATE = 16_000
"""Whisper's samples per second."""
# In samples. A shorter gap in the sound is a rounding error of the container.
_SLACK = SAMPLE_RATE // 20
# Samples of silence in one block, so that a sound that starts after an hour takes no memory before it.
_SILENT_BLOCK = 10 * SAMPLE_RATE


class NoSound(SubtitleError):
    """A video has no sound to transcribe."""


class BrokenSound(SubtitleError):
    """A video has a sound track that cannot be read."""


class SoundTrack:
    """The first audio track of a video file."""

    def __init__(self, path: Path, *, timeout: float = 600.0) -> None:
        """`timeout`: seconds that reading may take without a new block."""
        self._path = path
        self._timeout = timeout
        self._packets = 0
        self.damaged = 0
        """Packets that could not be decoded so far; their time is silent."""

    def blocks(self, until: float = math.inf) -> Iterator[np.ndarray]:
        """Blocks of float32 samples that follow one another without gaps, from the start of the video to
        `until` (s) or the end of the sound; gaps and a late start are silence. Raises NoSound if there is no
        sound, BrokenSound if more than half of it is damaged, VideoError for an unreadable file."""
        length, last = 0, math.inf if math.isinf(until) else round(until * SAMPLE_RATE)
        for block in self._all_blocks():
            part = block if length + len(block) <= last else block[: int(last) - length]
            length += len(part)
            if len(part):
                yield part.astype(np.float32, copy=False)
            if length >= last:
                break
        if self.damaged * 2 > self._packets:
            raise BrokenSound(
                f"{self._path}: its audio track is damaged ({self.damaged} of {self._packets} packets cannot "
                "be decoded); download it again, or give a subtitle file"
            )
        if not length:
            raise NoSound(f"{self._path}: its audio track is empty; give a subtitle file")

    def _all_blocks(self) -> Iterator[np.ndarray]:
        probe = probe_video(self._path, self._timeout)
        deadline, length = Deadline(self._timeout), 0
        with open_container(self._path, deadline) as container:
            if not container.streams.audio:
                raise NoSound(
                    f"{self._path} has no audio track; give a subtitle file, or run without subtitles"
                )
            track = container.streams.audio[0]
            if track.codec_context is None:
                raise BrokenSound(
                    f"{self._path}: this build of FFmpeg has no decoder for its sound; convert it to AAC"
                )
            for stream in container.streams:
                if stream.index != track.index:
                    stream.discard = av.stream.Discard.all
            resampler = _Resampler()
            for frame in self._frames(container, track, deadline):
                if frame.pts is not None and frame.time_base is not None:
                    at = round(float(frame.pts * frame.time_base - probe.origin) * SAMPLE_RATE)
                    if at - length > _SLACK:
                        for block in resampler.flush():
                            length += len(block)
                            yield block
                        while length < at:
                            silence = np.zeros(min(at - length, _SILENT_BLOCK), dtype=np.float32)
                            length += len(silence)
                            yield silence
                            # Not the time that the receiver took.
                            deadline.renew()
                for block in resampler.add(frame):
                    length += len(block)
                    yield block
                    deadline.renew()
            yield from resampler.flush()

    def _frames(
        self, container: av.container.InputContainer, track: Any, deadline: Deadline
    ) -> Iterator[av.AudioFrame]:
        for packet in container.demux(track):
            deadline.check(self._path)
            self._packets += 1
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                # One bad packet is no reason to lose an hour of speech: it is counted.
                self.damaged += 1
                continue
            yield from frames


class _Resampler:
    """Mono float samples at SAMPLE_RATE from frames of any format."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._inner = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)

    def add(self, frame: av.AudioFrame) -> list[np.ndarray]:
        try:
            return _samples(self._inner.resample(frame))
        except ValueError:
            # The format changes within the track, as in a recording of a broadcast.
            return [*self.flush(), *_samples(self._inner.resample(frame))]

    def flush(self) -> list[np.ndarray]:
        """What it still holds; it then starts afresh."""
        samples = _samples(self._inner.resample(None))
        self._start()
        return samples


def _samples(frames: list[av.AudioFrame]) -> list[np.ndarray]:
    return [frame.to_ndarray().reshape(-1) for frame in frames]
