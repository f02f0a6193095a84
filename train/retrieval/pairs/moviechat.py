"""MovieChat-Caption: the captions of MovieChat-1K (Song et al. 2024), a JSON file a video in `jsons/` with
the caption and, in "info", the video's file name. Videos in `raw_videos/`."""

from __future__ import annotations

from pathlib import Path

from videopro.benchmarks import VideoFiles
from videopro.errors import DatasetError
from videopro.train.retrieval.pairs.caption_pairs import CaptionPairs, Units, file_name, named, read_json


def load_moviechat(root: Path, units: Units) -> CaptionPairs:
    """A pair for each video; `units` makes no difference. Raises DatasetError if there are no annotations."""
    paths = sorted((root / "jsons").glob("*.json"))
    if not paths:
        raise DatasetError(
            f"moviechat: {root / 'jsons'} has no .json files; give the folder with the official annotations"
        )

    def captions(path: Path) -> tuple[str, list[tuple[str, float, float | None]]]:
        info, caption = named(read_json(path, "moviechat"), "info", "caption")
        (name,) = named(info, "video_path")
        return file_name(name), [(caption, 0.0, None)]

    pairs = CaptionPairs()
    pairs.read(VideoFiles(root), ("raw_videos", "videos", "."), [(str(p), p) for p in paths], captions)
    return pairs
