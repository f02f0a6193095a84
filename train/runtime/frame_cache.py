"""Decoded frames of training videos on disk: each video is decoded once, for all rows, epochs, ranks, workers
and runs that show it the same way.

What is kept is what the planner is shown in inference: uniform frames over the whole video, at the size that
the model takes, with their true times. Knows videos; must not know rows or prompts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from videopro.errors import ConfigError, VideoError
from videopro.video import Frame, FrameStore, Video
from videopro.video.decoding.opening import check_file, content_id

FORM = 1
"""Raise it when what a file holds changes."""

Resize = Callable[[int, int, int], tuple[int, int]]
"""(height, width, number of frames) of a video to the (height, width) that the model gives them."""


class FrameCache:
    """`count` uniform frames a video, resized by `resize`, which `form` names (files of different forms lie
    side by side). About count x pixels x 3 bytes a video: 9.6 MB for 64 frames of 50,176 pixels."""

    def __init__(self, root: Path, *, count: int, resize: Resize, form: str, timeout: float = 30.0) -> None:
        """`timeout`: seconds within which a file must open, and each frame must come."""
        self.root = root
        self.decoded = 0
        """Videos that this object decoded; others were there."""
        self._count = count
        self._resize = resize
        self._form = f"{FORM}-{count}-{form}"
        self._timeout = timeout

    def frames(self, path: Path) -> list[Frame]:
        """The frames of a video, decoded if they are not there yet. Raises VideoError for a video that
        cannot be read, ConfigError if its frames cannot be kept."""
        video, file = self._file(path)
        try:
            with safe_open(file, framework="np") as stored:
                images, times = stored.get_tensor("frames"), stored.get_tensor("times")
        except (OSError, SafetensorError):
            # Not there, or cut short by a full disk or an older machine's crash.
            return self._decode(path, file)
        images.flags.writeable = False
        return [Frame(image, float(time), video) for image, time in zip(images, times, strict=True)]

    def prepare(
        self, paths: Iterable[Path], *, workers: int = 4, told: Callable[[], None] = lambda: None
    ) -> dict[Path, str]:
        """Have the frames of every video ready; returns why those that cannot be read cannot. `told` is
        called after each video."""

        def one(path: Path) -> str | None:
            try:
                _, file = self._file(path)
                if not _whole(file):
                    self._decode(path, file)
            except VideoError as error:
                return str(error)
            finally:
                told()
            return None

        distinct = list(dict.fromkeys(paths))
        with ThreadPoolExecutor(workers) as threads:
            found = zip(distinct, threads.map(one, distinct), strict=True)
            return {path: why for path, why in found if why is not None}

    def _file(self, path: Path) -> tuple[str, Path]:
        """The video's content id, and where its frames are kept: named by content, so that a moved file is
        known and a changed one is not."""
        try:
            video = content_id(path, check_file(path).st_size)
        except OSError as error:
            raise VideoError(f"{path}: cannot be read ({error.strerror})") from error
        return video, self.root / video[:2] / f"{video}-{self._form}.safetensors"

    def _decode(self, path: Path, file: Path) -> list[Frame]:
        # No store of frames in memory beside the one on disk.
        video = Video.open(path, timeout=self._timeout, store=FrameStore(0))
        size = self._resize(video.height, video.width, self._count)
        frames = video.sample(self._count, size=size)
        self.decoded += 1
        images = np.stack([frame.image for frame in frames])
        times = np.array([frame.time for frame in frames])
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
            os.close(handle)
            try:
                save_file({"frames": images, "times": times}, name)
                # Whole or not at all, whoever else writes the same file and whenever this process is killed.
                os.replace(name, file)
            except BaseException:
                os.unlink(name)
                raise
        except (OSError, SafetensorError) as error:
            raise ConfigError(
                f"frames cannot be kept in {self.root} ({error}); make room there or give another folder "
                "with --frame_cache"
            ) from error
        return frames


def _whole(file: Path) -> bool:
    """Whether a file is there and as long as its own header says."""
    try:
        with safe_open(file, framework="np") as stored:
            return {"frames", "times"} <= set(stored.keys())
    except (OSError, SafetensorError):
        return False
