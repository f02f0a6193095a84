"""What commands that prepare videos share: which files these are, and what becomes of unreadable ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from videopro.backbones import find_video
from videopro.cli import option
from videopro.engine import shard
from videopro.errors import (
    ConfigError,
    NativeError,
    Streaks,
    SubtitleError,
    UnexpectedError,
    VideoError,
    VideoProError,
    WorkerBug,
    as_unexpected,
    is_machines,
)
from videopro.video import FILM_ENDINGS, check_no_url, files_below

_VIDEOS = "Videos"


@dataclass(frozen=True)
class VideosConfig:
    """The settings of commands that prepare videos."""

    videos: tuple[str, ...] = option(
        (), "video files, folders of them, or videos of a plug-in as NAME:VIDEO", positional=True
    )
    shard: str | None = option(
        None, "part i of n of the videos, such as 2/8, with n commands on n machines", group=_VIDEOS
    )
    skip_unreadable: bool = option(
        False,
        "status 0 even if some of the videos are missing or unreadable; they are named all the same",
        group=_VIDEOS,
    )

    def part_of(self, paths: Sequence[Path]) -> list[Path]:
        """The videos that are this command's own."""
        # Sorted: commands that name the same files in another order still split them alike.
        return list(paths) if self.shard is None else shard(sorted(paths), self.shard)

    def status(self, failed: int, videos: int) -> int:
        """The exit status. If nothing could be read, that is an error in any case."""
        return 2 if failed and not (self.skip_unreadable and failed < videos) else 0


def named_videos(names: Sequence[str]) -> list[Path]:
    """The files, each once, in their order. Raises VideoProError for an address, a folder without videos or
    an unknown video of a plug-in."""
    for name in names:
        check_no_url(name)
    return list(dict.fromkeys(path for name in names for path in _videos(Path(name))))


def _videos(path: Path) -> list[Path]:
    if not path.is_dir():
        return [find_video(path)]
    files = sorted(p for p in files_below(path) if p.suffix.lower() in FILM_ENDINGS)
    if not files:
        raise ConfigError(f"{path}: no video files in it ({', '.join(sorted(FILM_ENDINGS))})")
    return files


class Unprepared:
    """What went wrong so far. Thread-safe."""

    def __init__(self, participle: str) -> None:
        """`participle`: what cannot be done with such a video, for messages."""
        self._participle = participle
        self._streaks = Streaks()
        self._lock = threading.Lock()
        self._reported: set[tuple[str, str]] = set()

    def prepared(self) -> None:
        """A video was prepared."""
        with self._lock:
            self._streaks.spare()

    def tell(self, path: Path, error: BaseException) -> None:
        """Name a video that could not be prepared, and print the first traceback of each exception. Raises
        what ends the command: what was foreseen of all videos, the machine's errors, and WorkerBug for an
        exception that goes on and on."""
        if isinstance(error, VideoError | SubtitleError):
            print(f"error: {error}", file=sys.stderr)
            return
        if isinstance(error, UnexpectedError):
            unexpected = error
        elif not isinstance(error, Exception) or isinstance(error, VideoProError) or is_machines(error):
            raise error
        else:
            unexpected = as_unexpected(error, NativeError)
        record = unexpected.record
        assert record is not None
        with self._lock:
            if record.key not in self._reported:
                self._reported.add(record.key)
                print(record.traceback, file=sys.stderr)
            print(f"error: {path}: cannot be {self._participle}: {unexpected}", file=sys.stderr)
            is_over = self._streaks.end(record, str(path))
        if is_over:
            raise WorkerBug(
                f"{record.traceback}\nThe same exception at {record.place} met {self._streaks.videos} "
                "videos in a row"
            )
