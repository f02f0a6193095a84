"""What every source of caption-video pairs shares: the pair, and a list of pairs with what was left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro.benchmarks import VideoFiles
from videopro.errors import DatasetError
from videopro.storage import parse_json
from videopro.train.retrieval.settings import Units as Units


@dataclass(frozen=True)
class CaptionPair:
    """A caption with the part of a video that it describes."""

    caption: str
    video: Path
    start: float = 0.0
    """Seconds."""
    end: float | None = None
    """Seconds; None: the end of the video."""


@dataclass
class CaptionPairs:
    """The pairs of a source. A broken record and a missing video leave out their pairs and are named."""

    pairs: list[CaptionPair] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """For each broken record, where it is and what is wrong."""
    missing: dict[str, int] = field(default_factory=dict)
    """The pairs lost for each video that is not there."""

    def read(
        self,
        files: VideoFiles,
        folders: tuple[str, ...],
        rows: Iterable[tuple[str, Any]],
        captions_of: Callable[[Any], tuple[str, list[tuple[str, float, float | None]]]],
    ) -> None:
        """Add the pairs of each (where, record). `captions_of` gives the name of a record's video, looked for
        in `folders`, and its (caption, start, end), or raises DatasetError for a broken record."""
        for where, record in rows:
            try:
                name, captions = captions_of(record)
                annotated = [(_caption(caption), start, end) for caption, start, end in captions]
            except DatasetError as error:
                self.broken.append(f"{where}: {error}")
                continue
            if not annotated:
                continue  # of another split
            # Looked for last: a broken record is reported also where its video is missing.
            video = files.video(name, *folders)
            if not video.is_file():
                self.missing[name] = self.missing.get(name, 0) + len(annotated)
                continue
            self.pairs += [CaptionPair(caption, video, start, end) for caption, start, end in annotated]


def _caption(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(f"a caption is {value!r}; it must be a text")
    return " ".join(value.split())


def span(start: Any, end: Any) -> tuple[float, float]:
    """An annotated interval in seconds. Raises DatasetError if it is none, or empty."""
    if not (_is_time(start) and _is_time(end) and start < end):
        raise DatasetError(f"the interval [{start!r}, {end!r}] is not a start before an end, in seconds")
    return float(start), float(end)


def moment(value: Any) -> float:
    """An annotated time. Raises DatasetError if it is none."""
    if not _is_time(value):
        raise DatasetError(f"the time {value!r} is not a number from 0")
    return float(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def named(record: Any, *names: str) -> list[Any]:
    """These fields of a record. Raises DatasetError if it is no object or lacks one."""
    if not isinstance(record, dict):
        raise DatasetError("is not an object")
    lacking = [name for name in names if name not in record]
    if lacking:
        raise DatasetError(f"has no field {lacking[0]!r}")
    return [record[name] for name in names]


def file_name(value: Any) -> str:
    """A video's name in a record. Raises DatasetError if it is none."""
    if not isinstance(value, str) or not value.strip() or value.startswith("/") or ".." in Path(value).parts:
        raise DatasetError(f"the video's name is {value!r}; it must be a file name")
    return value


def annotation_file(root: Path, source: str, *names: str) -> Path:
    """The first of these files in a source's folder. Raises DatasetError if there is none."""
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise DatasetError(
            f"{source}: {root / names[0]} does not exist; give the folder with the official annotations"
        )
    return path


def read_json(path: Path, source: str) -> Any:
    """The value in a JSON file. Raises DatasetError if it cannot be read."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{source}: {path} cannot be read ({error}); download it again") from error
