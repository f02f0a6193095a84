"""OpenVid-1M (Nan et al. 2025): `OpenVid-1M.csv` with the columns "video", a file name, and "caption". Videos
in `video/`, `videos/` or anywhere below the folder, since they come in many archives."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
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
)


def load_openvid(root: Path, units: Units) -> CaptionPairs:
    """A pair for each clip; `units` makes no difference. Raises DatasetError for a missing or unreadable
    file."""
    path = annotation_file(root, "openvid", "OpenVid-1M.csv", "data/train/OpenVid-1M.csv")

    def captions(record: Any) -> tuple[str, list[tuple[str, float, float | None]]]:
        name, caption = named(record, "video", "caption")
        if None in record or None in record.values():
            raise DatasetError("does not have the columns of the first line")
        return file_name(name), [(caption, 0.0, None)]

    pairs = CaptionPairs()
    pairs.read(VideoFiles(root), ("video", "videos", "."), _rows(path), captions)
    return pairs


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    # Some captions are longer than the module's default limit.
    csv.field_size_limit(sys.maxsize)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in ("video", "caption") if name not in (reader.fieldnames or ())]
            if lacking:
                raise DatasetError(f"openvid: {path} has no column {lacking[0]!r}; download it again")
            for record in reader:
                yield f"{path}, line {reader.line_num}", record
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"openvid: {path} cannot be read ({error}); download it again") from error
