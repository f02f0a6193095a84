"""Decodes the same pictures with TorchCodec, if it is installed and finds FFmpeg's shared libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from videopro.errors import VideoError
from videopro.extras import install
from videopro.video.decoding.exact import DecodedPictures, processors
from videopro.video.decoding.opening import Deadline
from videopro.video.decoding.probe import Probe

if TYPE_CHECKING:
    from torchcodec.decoders import VideoDecoder

# Frames per call; the deadline is checked between calls.
_BATCH = 8
# In others (transport streams) TorchCodec was seen to miss frames.
_CONTAINERS = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"})


def check_usable(probe: Probe, timeout: float) -> None:
    """Raise VideoError if TorchCodec is not installed, does not load, or does not support this file."""
    if probe.turn.mirrored:
        raise VideoError(
            f"{probe.path}: is mirrored for display, which TorchCodec does not support; use decoder 'pyav'"
        )
    if probe.container not in _CONTAINERS:
        raise VideoError(
            f"{probe.path}: decoder 'torchcodec' reads MP4 and Matroska files; use decoder 'pyav'"
        )
    with _File(probe.path, timeout) as file:
        _decoder(probe, file, None, "approximate")


def pictures_at(
    probe: Probe,
    ticks: Sequence[int],
    size: tuple[int, int],
    known: Callable[[int], bool],
    timeout: float,
) -> DecodedPictures:
    """As `videopro.video.decoding.exact.pictures_at`, scaled bilinearly. TorchCodec decodes before it returns
    a timestamp, so `known` saves memory but no decoding."""
    shown = DecodedPictures()
    stored = (probe.coded_height, probe.coded_width)
    scaled = None if size == (stored[::-1] if probe.turn.swaps else stored) else size
    with _File(probe.path, timeout) as file:
        decoder = _decoder(probe, file, scaled, "exact")
        wanted = sorted(set(ticks))
        for at in range(0, len(wanted), _BATCH):
            batch = wanted[at : at + _BATCH]
            # A quarter of a tick past: rounding must not fall before the tick, and no picture starts in
            # between.
            seconds = [float((tick + 0.25) * probe.time_base) for tick in batch]
            try:
                frames = decoder.get_frames_played_at(seconds)
            except (RuntimeError, IndexError) as error:
                raise VideoError(f"{probe.path}: TorchCodec cannot decode it ({_reason(error)})") from None
            for tick, time, image in zip(
                batch, frames.pts_seconds.tolist(), frames.data.numpy(), strict=True
            ):
                pts = round(time / probe.time_base)
                shown.at[tick] = pts
                if pts not in shown.images and not known(pts):
                    shown.images[pts] = np.array(image)  # a view would keep the batch in memory
                    shown.images[pts].flags.writeable = False
            file.deadline.renew()
    return shown


def _decoder(probe: Probe, file: _File, size: tuple[int, int] | None, mode: str) -> VideoDecoder:
    try:
        from torchcodec.decoders import VideoDecoder
        from torchcodec.transforms import Resize

        file.deadline.renew()  # the first import takes its time
        return VideoDecoder(
            file,
            stream_index=probe.stream,
            dimension_order="NHWC",
            num_ffmpeg_threads=processors(),
            seek_mode=mode,
            transforms=[Resize(size)] if size else None,
        )
    except (ImportError, RuntimeError, OSError) as error:
        raise VideoError(
            f"decoder 'torchcodec' cannot be used for {probe.path} ({_reason(error)}); "
            f"{install('torchcodec')} and FFmpeg's shared libraries (apt-get install ffmpeg), "
            "or use decoder 'pyav'"
        ) from None


def _reason(error: BaseException) -> str:
    """The first line of the message: TorchCodec lists every library that it tried."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _File:
    """A file for TorchCodec whose reads fail after the deadline, so that no search is endless."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.deadline = Deadline(timeout)
        self._path = path

    def __enter__(self) -> _File:
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise VideoError(
                f"{self._path}: cannot be read ({error.strerror}); check its permissions"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        self.deadline.check(self._path)
        return self._file.read(size)

    def seek(self, offset: int, whence: int) -> int:
        return self._file.seek(offset, whence)
