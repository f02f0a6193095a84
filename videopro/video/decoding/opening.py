"""Opens files that may be anything: missing, a pipe, cut off, a playlist, endless. Every failure is one clear
error, raised in bounded time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import av
import av.error
from av.container import InputContainer
from av.video.stream import VideoStream

from videopro.errors import VideoError, current_cancellation, reason_of
from videopro.video.decoding import clocks

# Containers with their own timestamps. Everything else that FFmpeg would open is refused: playlists (hls,
# concat, dash) make FFmpeg open whatever they name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,flv,mpegts,mpeg,asf,ogg,mxf,ivf,gif,apng,yuv4mpegpipe"
# What is refused by its name.
_STILL = "jpeg_pipe,png_pipe,webp_pipe,bmp_pipe,tiff_pipe"
_RAW = "h264,hevc,vvc,av1,obu,m4v,mpegvideo,mjpeg,h261,h263,vc1,dirac,cavsvideo,dnxhd"
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
# 8K with some room. A picture beyond it could take gigabytes for the decoder's reference frames.
MAX_PIXELS = 8192 * 4608
_BLOCK = 256 * 1024
# A day at 240 pictures per second. FFmpeg allocates memory for as many as an MP4 header claims, unchecked.
_MAX_PICTURES = 24 * 3600 * 240


class Deadline:
    """A time limit; call `renew` after visible progress to restart it. It passes at once if the work of the
    thread that made it is cancelled, whichever thread decodes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._cancellation = current_cancellation()
        self._end = time.monotonic() + seconds

    def renew(self) -> None:
        self._end = time.monotonic() + self.seconds

    def cancel(self) -> None:
        """Make the next check fail, in any thread."""
        self._end = float("-inf")

    @property
    def left(self) -> float:
        """Seconds left, 0 or more."""
        return max(0.0, self._end - time.monotonic())

    def check(self, path: Path) -> None:
        """Raise VideoError if the time is up, and Cancelled."""
        if self._cancellation is not None:
            self._cancellation.check()
        if time.monotonic() > self._end:
            raise timeout_error(path, self.seconds)


def timeout_error(path: Path, seconds: float) -> VideoError:
    return VideoError(
        f"{path}: no frame within {seconds:g} s; the file is damaged, endless or on a slow disk (copy it to "
        "a local disk, or pass a larger timeout)"
    )


# A path object has only one of the two slashes.
_URL = re.compile(r"(?P<scheme>https?|ftp|s3|gs|rtsp|hf):/{1,2}(?P<rest>.*)", re.DOTALL)


def check_no_url(name: str) -> None:
    """Raise VideoError for the address of a video that is not on this machine."""
    match = _URL.fullmatch(name)
    if match is None:
        return
    url = f"{match['scheme']}://{match['rest']}"
    if match["scheme"] not in ("http", "https"):
        raise VideoError(f"{url}: videos are read from files only; download it first and pass the file")
    raise VideoError(
        f"{url}: videos are read from files only; download it first and pass the file: yt-dlp -f mp4 -o "
        f"video.mp4 '{url}' (a page), or curl -L -o video.mp4 '{url}' (a file)"
    )


def check_file(path: Path) -> os.stat_result:
    """The state of a readable, non-empty regular file; raises VideoError for anything else.

    A pipe or device is refused unopened: it could block a read forever, and FFmpeg cannot be interrupted in a
    read.
    """
    check_no_url(str(path))
    try:
        state = os.stat(path)
    except FileNotFoundError:
        raise VideoError(f"{path}: no such file; check the path") from None
    except (OSError, ValueError) as error:
        raise VideoError(
            f"{path}: cannot be accessed ({reason_of(error)}); check the path and its permissions"
        ) from None
    if stat.S_ISDIR(state.st_mode):
        raise VideoError(f"{path}: is a directory; pass the video file{_of_frames(path)}")
    if not stat.S_ISREG(state.st_mode):
        raise VideoError(f"{path}: is a pipe or device, not a file; copy the video to a file first")
    if state.st_size == 0:
        raise VideoError(f"{path}: is empty (0 bytes); download or copy it again")
    return state


def _of_frames(folder: Path) -> str:
    """What to do with a folder of frames, which has no times; nothing for another one."""
    try:
        endings = (Path(entry.name).suffix for entry in os.scandir(folder))
        ending = next((each for each in endings if each.lower() in _PICTURES), None)
    except OSError:
        return ""
    if ending is None:
        return ""
    pattern = shlex.quote(f"{folder}/*{ending}")
    return (
        ", or make a video of its frames, which have no times: ffmpeg -framerate FPS -pattern_type glob -i "
        f"{pattern} {shlex.quote(f'{folder}.mp4')}"
    )


def content_id(path: Path) -> str:
    """32 hex digits that identify a file's content: SHA-256 of its size and of five blocks of 256 KiB, at the
    start, at each quarter and at the end. A file of up to 1.25 MiB is read whole. Unlike the path, the id
    survives a move. Two files that differ only between the blocks have the same id, which does not happen to
    compressed video by accident. Raises VideoError as `check_file`, OSError for one that cannot be read.
    """
    size = check_file(path).st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with open(path, "rb") as file:
        if size <= 5 * _BLOCK:
            digest.update(file.read(size))
        else:
            for quarter in range(5):
                file.seek((size - _BLOCK) * quarter // 4)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()[:32]


def content_if_readable(path: Path) -> str | None:
    """The same; None if it is not a readable file."""
    try:
        return content_id(path)
    except (VideoError, OSError):
        return None


def check_complete(path: Path, size: int) -> None:
    """Raise VideoError if the container's own sizes extend beyond the end of the file, or its sample counts
    are impossible.

    Reads MP4/QuickTime boxes (ISO/IEC 14496-12), the Matroska segment (RFC 9559) and the RIFF size of AVI.
    Transport streams and the like state no size: a truncated one is simply shorter.
    """
    samples = 0
    with open(path, "rb") as file:
        head = file.read(12)
        if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip", b"pnot", b"styp"):
            end = clocks.promised_end(file, size)
            samples = clocks.video_samples(file, size)
        elif head[:4] == b"\x1a\x45\xdf\xa3":
            end = _matroska_end(file)
        elif head[:4] == b"RIFF" and head[8:] == b"AVI ":
            end = 8 + int.from_bytes(head[4:8], "little")
        else:
            return
    if end > size:
        raise VideoError(
            f"{path}: is truncated: it has {size} of the {end} bytes in its header; download or copy it again"
        )
    if samples > _MAX_PICTURES:
        raise VideoError(
            f"{path}: its header claims {samples} frames, more than any real video has; re-encode it"
        )


def _matroska_end(file: BinaryIO) -> int:
    """Byte offset of the end of the segment; 0 if it is not given (live recordings)."""
    at = 0
    for _ in range(2):
        file.seek(at)
        head = file.read(12)
        segment = head[:4] == b"\x18\x53\x80\x67"
        if len(head) < 5 or head[4] == 0:
            return 0
        length = 9 - head[4].bit_length()
        value = int.from_bytes(head[4 : 4 + length], "big") & ((1 << 7 * length) - 1)
        unknown = value == (1 << 7 * length) - 1
        at += 4 + length
        if segment:
            return 0 if unknown else at + value
        at += value
    return 0


@contextmanager
def open_container(path: Path, deadline: Deadline) -> Iterator[InputContainer]:
    """The file opened by PyAV, closed at the end of the block.

    FFmpeg may open only this file, and stops a read or search when the time is up. Any FFmpeg error within
    the block is raised as VideoError.
    """
    try:
        with _opened(path, _FORMATS, deadline) as container:
            yield container
    except av.error.ExitError:
        raise timeout_error(path, deadline.seconds) from None
    except (av.error.FFmpegError, UnicodeError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise VideoError(
            _refusal(path, deadline)
            or f"{path}: FFmpeg cannot read it as a video ({reason}); check that it is a complete video"
        ) from None


def _opened(path: Path, formats: str, deadline: Deadline) -> InputContainer:
    left = max(deadline.left, 0.001)
    return av.open(
        str(path.absolute()),
        options={"max_pixels": str(MAX_PIXELS)},
        container_options={"protocol_whitelist": "file", "format_whitelist": formats},
        metadata_errors="replace",
        timeout=(left, left),
    )


def _refusal(path: Path, deadline: Deadline) -> str | None:
    """Why a still picture, an animated WebP or a stream without times is not read; None for anything else."""
    try:
        with _opened(path, f"{_STILL},{_RAW}", deadline) as container:
            kind, name = container.format.name, container.format.long_name
    except (av.error.FFmpegError, UnicodeError, EOFError):
        return None
    if kind == "webp_pipe" and _is_animated(path):
        return (
            f"{path}: is an animated WebP, which FFmpeg cannot decode; convert it with ImageMagick: "
            f"magick {shlex.quote(path.name)} OUT.gif"
        )
    if kind in _STILL:
        return f"{path}: is a still image, not a video; pass a video file"
    return (
        f"{path}: is a raw stream ({name}), whose frames have no times; put it into a container: ffmpeg "
        f"-framerate FPS -i {shlex.quote(path.name)} OUT.mp4"
    )


def _is_animated(webp: Path) -> bool:
    """Whether a WebP has the chunk of global parameters of an animation, which precedes its pictures."""
    with open(webp, "rb") as file:
        return b"ANIM" in file.read(64)


def video_stream(container: InputContainer, path: Path) -> VideoStream:
    """The stream to decode, with all others switched off. Raises VideoError if there is none."""
    # Without cover pictures, which are video streams of one picture.
    streams = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        kinds = sorted({s.type for s in container.streams if s.type in ("audio", "subtitle")})
        only = f" (only {' and '.join(kinds)})" if kinds else ""
        raise VideoError(f"{path}: has no video track{only}; pass a video file")
    best = container.streams.best("video")
    stream = next((s for s in streams if best is not None and s.index == best.index), streams[0])
    if stream.codec_context is None:
        raise VideoError(f"{path}: this build of FFmpeg has no decoder for its video; convert it to H.264")
    for other in container.streams:
        if other.index != stream.index:
            other.discard = av.stream.Discard.all
    return stream
