"""Videos of evaluation splits, and the check that none of them is used for training.

A video is identified by the content of its file, whatever its name; if the file is missing, by the name
that its benchmark gives it; a pocket video also by the seed that it is generated from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videopro.benchmarks import CG_BENCH_FILES, Item, pocket_videos, read_cg_bench
from videopro.cli import cache_root
from videopro.errors import BenchmarkError, ConfigError, VideoError
from videopro.storage import parse_json
from videopro.video import files_below
from videopro.video.decoding import check_file, content_id

POCKET_SPLITS = ("val", "test")
# Files next to videos that are not videos.
_NOT_VIDEOS = {
    ".jsonl",
    ".json",
    ".srt",
    ".vtt",
    ".txt",
    ".md",
    ".yaml",
    ".csv",
    ".parquet",
    ".safetensors",
    ".lock",
}


@dataclass
class EvaluationVideos:
    """Videos of evaluation splits, each with a description of its split."""

    contents: dict[str, str] = field(default_factory=dict)
    """By content id (`Video.id`)."""
    names: dict[str, str] = field(default_factory=dict)
    """By file name without its ending."""
    seeds: dict[tuple[str, int], str] = field(default_factory=dict)
    """Pocket videos by length and seed."""

    def add_file(self, path: Path, where: str) -> None:
        """Add a video by its content, or by its name if the file is not there."""
        content = file_content(path)
        if content is None:
            self.names[path.stem] = f"{where} (by its name: {path} is missing)"
        else:
            self.contents[content] = where

    def evaluated_in(
        self, path: Path, key: str, content: str | None, seeds: Mapping[str, tuple[str, int]]
    ) -> str | None:
        """The evaluation split that contains a video, or None. `key`: its benchmark's name for it; `seeds`:
        what pocket videos are generated from, by their names."""
        return (
            # From the cheapest: a name needs no file to be read.
            self.names.get(path.stem)
            or self.names.get(key)
            or self.seeds.get(seeds.get(path.stem, ("", -1)))
            or self.contents.get(content or "")
        )

    def __len__(self) -> int:
        return len(self.contents) + len(self.names) + len(self.seeds)


def file_content(path: Path) -> str | None:
    """The content id of a file; None if it is not a readable file."""
    try:
        return content_id(path, check_file(path).st_size)
    except (VideoError, OSError):
        return None


def evaluation_videos(exclude: Sequence[Path] = (), *, cg_bench: Path | None = None) -> EvaluationVideos:
    """All videos that are known to be for evaluation: pocket's val and test, what `exclude` names (a folder
    of videos, a JSONL with "video" or "videos", an annotation file of CG-Bench), and CG-Bench mini in the
    folder `cg_bench`. Raises ConfigError for an `exclude` that cannot be read."""
    excluded = EvaluationVideos()
    for split in POCKET_SPLITS:
        for name, length, seed in pocket_videos(split):
            excluded.seeds[length, seed] = f"video {name} of pocket's split {split!r}"
        # Worlds of every fingerprint: the test split of an older world is not training data either.
        for path in sorted(cache_root().glob(f"pocket-*/{split}/videos/*.mp4")):
            excluded.add_file(path, f"video {path.stem} of pocket's split {split!r}")
    if cg_bench is not None:
        _add_cg_bench(excluded, cg_bench / CG_BENCH_FILES["mini"], "CG-Bench mini")
    for path in exclude:
        if path.is_dir():
            _add_folder(excluded, path)
        elif path.suffix == ".json":
            _add_cg_bench(excluded, path, str(path))
        else:
            _add_lines(excluded, path)
    return excluded


def _add_folder(excluded: EvaluationVideos, folder: Path) -> None:
    files = [p for p in sorted(files_below(folder)) if p.suffix.lower() not in _NOT_VIDEOS]
    if not files:
        raise ConfigError(f"exclude: {folder} holds no videos")
    for path in files:
        excluded.add_file(path, f"{path.name} in {folder}")


def _add_cg_bench(excluded: EvaluationVideos, path: Path, where: str) -> None:
    try:
        records = read_cg_bench(path)
    except BenchmarkError as error:
        raise ConfigError(f"exclude: {error}") from error
    # The annotations may come without the videos, so the ids count by themselves.
    for uid in sorted({str(record["video_uid"]) for record in records if "video_uid" in record}):
        excluded.names[uid] = f"video {uid} of {where}"
        if content := file_content(path.parent / "cg_videos_720p" / f"{uid}.mp4"):
            excluded.contents[content] = f"video {uid} of {where}"


def _add_lines(excluded: EvaluationVideos, path: Path) -> None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"exclude: {path} cannot be read ({error}); give a folder of videos, a JSONL whose lines have "
            "'video' or 'videos', or an annotation file of CG-Bench (.json)"
        ) from error
    videos: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            videos.update(_videos_of(line, f"{path}, line {number}"))
    if not videos:
        raise ConfigError(f"exclude: {path} names no videos")
    for video in sorted(videos):
        excluded.add_file(path.parent / video, f"{video} in {path}")


def _videos_of(line: str, where: str) -> Iterable[str]:
    try:
        record = parse_json(line)
    except ValueError as error:
        raise ConfigError(f"exclude: {where} is not JSON ({error})") from error
    named = record.get("videos", record.get("video")) if isinstance(record, dict) else None
    videos = [named] if isinstance(named, str) else named
    if not isinstance(videos, list) or not all(isinstance(video, str) for video in videos):
        raise ConfigError(f"exclude: {where} has neither 'video' nor a list 'videos'")
    return videos


def find_evaluation_videos(
    items: Iterable[Item], excluded: EvaluationVideos, seeds: Mapping[str, tuple[str, int]]
) -> dict[str, str]:
    """Which videos of these questions are for evaluation: the videos' keys, each with its split. `seeds`:
    what pocket videos are generated from, by their names."""
    splits: dict[str, str] = {}
    seen: set[str] = set()
    for item in items:
        if item.video_key in seen:
            continue
        seen.add(item.video_key)
        split = excluded.evaluated_in(item.video, item.video_key, file_content(item.video), seeds)
        if split:
            splits[item.video_key] = split
    return splits


def pocket_seeds(split: str, world_seed: int | None) -> dict[str, tuple[str, int]]:
    """Length and seed of the videos of a split of the pocket world, by their names."""
    return {name: (length, seed) for name, length, seed in pocket_videos(split, world_seed)}
