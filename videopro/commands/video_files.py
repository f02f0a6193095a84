"""What commands that prepare videos share: which files to use, and what happens to unreadable ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from videopro.backbones import find_video
from videopro.benchmarks import Item
from videopro.cli import build_settings, option, read_yaml
from videopro.commands.infer_settings import InferConfig, load_benchmark, runs_of
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.question_settings import QuestionSettings
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
    failure_lines,
    is_machines,
)
from videopro.video import VIDEO_ENDINGS, check_no_url, files_below

_VIDEOS = "Videos"


@dataclass(frozen=True)
class VideosConfig:
    """The settings of commands that prepare videos."""

    videos: tuple[str, ...] = option(
        (), "video files, folders of videos, or NAME:VIDEO for a plug-in's videos", positional=True
    )
    asked_by: tuple[Path, ...] = option(
        (),
        "instead of files, the videos of the questions that these config files of videopro infer, synthesize "
        "or prompts ask",
        group=_VIDEOS,
    )
    shard: str | None = option(
        None, "part i of n of the videos, such as 2/8, to run n commands on n machines", group=_VIDEOS
    )
    skip_unreadable: bool = option(
        False,
        "exit with status 0 even if some videos are missing or unreadable; they are still reported",
        group=_VIDEOS,
    )

    def part_of(self, paths: Sequence[Path]) -> list[Path]:
        """The videos of this command's shard."""
        # Sorted: commands that name the same files in another order still split them alike.
        return list(paths) if self.shard is None else shard(sorted(paths), self.shard)

    def status(self, failed: int, videos: int) -> int:
        """The exit status. It is always an error if no video could be read."""
        return 2 if failed and not (self.skip_unreadable and failed < videos) else 0


def named_videos(names: Sequence[str]) -> list[Path]:
    """The files, each once, in order. Raises VideoProError for a URL, a folder without videos or an unknown
    video of a plug-in."""
    for name in names:
        check_no_url(name)
    return list(dict.fromkeys(path for name in names for path in _videos(Path(name))))


def _videos(path: Path) -> list[Path]:
    if not path.is_dir():
        return [find_video(path)]
    files = sorted(p for p in files_below(path) if p.suffix.lower() in VIDEO_ENDINGS)
    if not files:
        raise ConfigError(f"{path}: contains no video files ({', '.join(sorted(VIDEO_ENDINGS))})")
    return files


def asked_items(files: Sequence[Path]) -> list[Item]:
    """The questions that configs of `videopro infer`, `synthesize` or `prompts` ask. Raises VideoProError."""
    items: list[Item] = []
    for file in files:
        given = read_yaml(file)
        if "benchmark" in given:
            for run in runs_of(build_settings(InferConfig, given, "infer")):
                items += load_benchmark(run).select(limit=run.limit, ids=run.ids, seed=run.seed)
            continue
        known = {field.name for field in fields(QuestionSettings)}
        asks = build_settings(
            QuestionSettings, {key: each for key, each in given.items() if key in known}, "synthesize"
        )
        source, selection = asks.questions()
        items += DecontaminationGuard(asks, source).allowed(selection, asks.limit, asks.ids)
    return items


class Unprepared:
    """The videos that failed so far. Thread-safe."""

    def __init__(self, participle: str) -> None:
        """`participle`: what could not be done with these videos, for messages."""
        self._participle = participle
        self._streaks = Streaks()
        self._lock = threading.Lock()
        self._reported: set[tuple[str, str]] = set()
        self._failures: list[tuple[str, str, str]] = []

    def __len__(self) -> int:
        return len(self._failures)

    def print_all(self) -> None:
        """Print which videos failed, grouped by reason."""
        if self._failures:
            lines = failure_lines(self._failures, "the messages above")
            print(f"not {self._participle}:", *lines, sep="\n", file=sys.stderr)

    def skip(self, path: Path, reason: str) -> None:
        """Report a video that is given up."""
        reason = reason.removeprefix(f"{path}: ")
        with self._lock:
            self._failures.append((str(path), "", reason))
        print(f"error: {path}: {reason}", file=sys.stderr)

    def prepared(self) -> None:
        """A video was prepared."""
        with self._lock:
            self._streaks.spare()

    def tell(self, path: Path, error: BaseException) -> None:
        """Report a video that could not be prepared, and print the first traceback of each exception. Raises
        the errors that end the command: expected errors of all videos, errors of the machine, and WorkerBug
        for an exception that keeps recurring."""
        if isinstance(error, VideoError | SubtitleError):
            self.skip(path, str(error))
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
            is_over = self._streaks.end(record, str(path))
        self.skip(path, str(unexpected))
        if is_over:
            raise WorkerBug(
                f"{record.traceback}\nThe same exception at {record.place} failed {self._streaks.videos} "
                "videos in a row"
            )
