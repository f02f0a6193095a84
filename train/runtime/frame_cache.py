"""A cache of decoded frames on disk: each training video is decoded once for all rows, epochs, ranks, workers
and runs that show it in the same way.

It holds what the planner is shown in inference: frames sampled uniformly from the whole video, at the model's
input size, with their true times.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from videopro.errors import ConfigError, VideoError
from videopro.video import Frame, FrameStore, Video, may_stand_in
from videopro.video.decoding import content_id

FORM = 1
"""The version of the file format; raise it when the format changes."""

_WANTED = "wanted"
"""The metadata key for the times of damaged frames that others replace."""

Resize = Callable[[int, int, int], tuple[int, int]]
"""From a video's (height, width, number of frames) to the (height, width) at which the model takes them."""


@dataclass
class FrameCache:
    """`count` uniform frames per video, or each picture once if it has fewer, resized by `resize`, which
    `form` names (files of different forms coexist). About count x pixels x 3 bytes per video: 9.6 MB for 64
    frames of 50,176 pixels."""

    root: Path
    _: KW_ONLY
    count: int
    resize: Resize
    form: str
    timeout: float = 30.0
    """Seconds allowed to open a file, and to decode each frame."""
    nearest_intact: float = 0.0
    """As of `Video.open`."""
    decoded: int = field(default=0, init=False)
    """The number of videos that this object decoded; others came from the cache."""

    def frames(self, path: Path) -> list[Frame]:
        """The frames of a video, decoded if they are not cached yet. Raises VideoError for a video that
        cannot be read, ConfigError if its frames cannot be written."""
        video, file = self._file(path)
        wanted = self._wanted(file)
        if wanted is None:
            return self._decode(path, file)
        with safe_open(file, framework="np") as stored:
            images, times = stored.get_tensor("frames"), stored.get_tensor("times")
        images.flags.writeable = False
        return [
            Frame(image, float(time), video, wanted=wanted.get(number, ()))
            for number, (image, time) in enumerate(zip(images, times, strict=True))
        ]

    def prepare(
        self, paths: Iterable[Path], *, workers: int = 4, on_done: Callable[[], None] = lambda: None
    ) -> dict[Path, str]:
        """Cache the frames of every video. Returns the reason for each video that cannot be read. `on_done`
        is called after each video."""

        def prepare_video(path: Path) -> str | None:
            try:
                _, file = self._file(path)
                if (wanted := self._wanted(file)) is None:
                    stood_in = sum(len(frame.wanted) for frame in self._decode(path, file))
                else:
                    stood_in = sum(map(len, wanted.values()))
                if stood_in:
                    print(f"{path}: {stood_in} damaged frames replaced by intact ones", file=sys.stderr)
            except VideoError as error:
                return str(error)
            finally:
                on_done()
            return None

        # Rows share videos, and two threads must not decode the same one.
        distinct = list(dict.fromkeys(paths))
        with ThreadPoolExecutor(workers) as threads:
            results = zip(distinct, threads.map(prepare_video, distinct), strict=True)
            return {path: reason for path, reason in results if reason is not None}

    def _file(self, path: Path) -> tuple[str, Path]:
        """The video's content id, and its file in the cache: named by content, so that a moved video is found
        and a changed one is decoded again."""
        try:
            video = content_id(path)
        except OSError as error:
            raise VideoError(f"{path}: cannot be read ({error.strerror})") from error
        return video, self.root / video[:2] / f"{video}-{FORM}-{self.count}-{self.form}.safetensors"

    def _decode(self, path: Path, file: Path) -> list[Frame]:
        # No frame store in memory in addition to the cache on disk.
        video = Video.open(
            path, timeout=self.timeout, store=FrameStore(0), nearest_intact=self.nearest_intact
        )
        size = self.resize(video.height, video.width, self.count)
        frames = video.sample(self.count, size=size)
        self.decoded += 1
        images = np.stack([frame.image for frame in frames])
        times = np.array([frame.time for frame in frames])
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
            os.close(handle)
            try:
                wanted = {number: frame.wanted for number, frame in enumerate(frames) if frame.wanted}
                save_file({"frames": images, "times": times}, name, {_WANTED: json.dumps(wanted)})
                # Atomic, even if another process writes the same file or this one is killed.
                os.replace(name, file)
            except BaseException:
                os.unlink(name)
                raise
        except (OSError, SafetensorError) as error:
            raise ConfigError(
                f"cannot write frames to {self.root} ({error}); free space there, or set another folder with "
                "--frame_cache"
            ) from error
        return frames

    def _wanted(self, file: Path) -> dict[int, tuple[float, ...]] | None:
        """The times of damaged frames that frames in a file replace, by frame number; None if there is no
        file, if a full disk or a crash truncated it, or if this replacement is not allowed."""
        try:
            with safe_open(file, framework="np") as stored:
                times, metadata = stored.get_tensor("times"), stored.metadata() or {}
        except (OSError, SafetensorError):
            return None
        wanted = {int(n): tuple(times) for n, times in json.loads(metadata.get(_WANTED, "{}")).items()}
        pairs = ((time, float(times[n])) for n in wanted for time in wanted[n])
        return wanted if may_stand_in(pairs, self.nearest_intact) else None
