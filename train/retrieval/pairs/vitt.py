"""ViTT (Huang et al. 2020): `ViTT-annotations.json`, a JSON object a line with a video's YouTube-8M id and
tags, each with the millisecond at which its segment begins. Videos in `videos/` or the folder itself, by that
id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videopro.benchmarks import VideoFiles
from videopro.errors import DatasetError
from videopro.storage import parse_json
from videopro.train.retrieval.pairs.caption_pairs import (
    CaptionPairs,
    Units,
    annotation_file,
    file_name,
    moment,
    named,
)
from videopro.train.retrieval.pairs.youcook2 import joined


def load_vitt(root: Path, units: Units) -> CaptionPairs:
    """A pair for each tag, or for each annotation of a video. A segment ends where the next begins. With
    `train_id.txt`, the official list, only its videos are used. Raises DatasetError for a missing or
    unreadable file."""
    path = annotation_file(root, "vitt", "ViTT-annotations.json")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        split = root / "train_id.txt"
        train = set(split.read_text(encoding="utf-8").split()) if split.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"vitt: {path} cannot be read ({error}); download it again") from error

    def captions(line: str) -> tuple[str, list[tuple[str, float, float | None]]]:
        try:
            record = parse_json(line)
        except ValueError as error:
            raise DatasetError(f"is not valid JSON ({error})") from error
        name, tags = named(record, "id", "annotations")
        if not isinstance(tags, list) or not tags:
            raise DatasetError("'annotations' is not a list of tags")
        read: list[tuple[float, Any]] = []
        for tag in tags:
            time, text = named(tag, "timestamp", "tag")
            read.append((moment(time) / 1000, text))
        if train is not None and file_name(name) not in train:
            return name, []
        if units == "videos":
            return file_name(name), [(joined([text for _, text in read]), 0.0, None)]
        read.sort(key=lambda pair: pair[0])
        ends: list[float | None] = [*(time for time, _ in read[1:]), None]
        spans = [(text, time, end) for (time, text), end in zip(read, ends, strict=True)]
        # Tags at one time: the last of them has the segment.
        return file_name(name), [each for each in spans if each[2] is None or each[2] > each[1]]

    pairs = CaptionPairs()
    rows = [(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    pairs.read(VideoFiles(root), ("videos", "."), rows, captions)
    return pairs
