"""YouCook2 (Zhou et al. 2018): `youcookii_annotations_trainval.json`, whose "database" maps a YouTube id to a
subset and annotations of a segment and a sentence each. Videos by their id, anywhere below the folder
(officially `raw_videos/training/RECIPE/ID.mp4`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videopro.benchmarks import VideoFiles
from videopro.errors import DatasetError
from videopro.train.retrieval.pairs.caption_pairs import (
    CaptionPairs,
    Units,
    annotation_file,
    file_name,
    named,
    read_json,
    span,
)

NAME = "youcookii_annotations_trainval.json"


def load_youcook2(root: Path, units: Units) -> CaptionPairs:
    """A pair for each step of the training subset, or for each of its videos. Raises DatasetError for a
    missing or unreadable file."""
    path = annotation_file(root, "youcook2", NAME, f"annotations/{NAME}")
    content = read_json(path, "youcook2")
    database = content.get("database") if isinstance(content, dict) else None
    if not isinstance(database, dict):
        raise DatasetError(f"youcook2: {path} has no object 'database'; download it again")

    def captions(entry: tuple[str, Any]) -> tuple[str, list[tuple[str, float, float | None]]]:
        name, record = entry
        (steps,) = named(record, "annotations")
        if not isinstance(steps, list) or not steps:
            raise DatasetError("'annotations' is not a list of steps")
        read: list[tuple[str, float, float | None]] = []
        for step in steps:
            segment, sentence = named(step, "segment", "sentence")
            if not isinstance(segment, list) or len(segment) != 2:
                raise DatasetError("'segment' is not [start, end]")
            read.append((sentence, *span(*segment)))
        if units == "videos":
            return file_name(name), [(joined([sentence for sentence, _, _ in read]), 0.0, None)]
        return file_name(name), read

    pairs = CaptionPairs()
    rows = [
        (f"{path}, {name!r}", (name, record))
        for name, record in database.items()
        if not isinstance(record, dict) or record.get("subset") == "training"
    ]
    pairs.read(VideoFiles(root), ("raw_videos", "videos", "."), rows, captions)
    return pairs


def joined(captions: list[Any]) -> str:
    """The captions of a video's segments as one. Raises DatasetError if one is no text."""
    wrong = [caption for caption in captions if not isinstance(caption, str) or not caption.strip()]
    if wrong:
        raise DatasetError(f"a caption is {wrong[0]!r}; it must be a text")
    return ". ".join(caption.strip().rstrip(".") for caption in captions) + "."
