"""Caption-video pairs for training retrievers: LongVR's five sources (LVAgent, Table 8), in their official
formats."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from videopro.benchmarks import VideoFiles
from videopro.cli import did_you_mean
from videopro.errors import ConfigError, DatasetError, first_of, reading_file
from videopro.storage import parse_json
from videopro.train.retrieval.settings import Units


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
    """The pairs of a source. Pairs with a broken record or a missing video are left out and listed."""

    pairs: list[CaptionPair] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """For each broken record, its place and what is wrong."""
    missing: dict[str, int] = field(default_factory=dict)
    """The number of pairs lost for each missing video."""


Annotated: TypeAlias = tuple[str, Sequence[tuple[Any, float, float | None]]]
"""A video's name, and its captions with start and end; empty if the video is in another split."""


@dataclass(frozen=True)
class Source:
    """A source's official format."""

    folders: tuple[str, ...]
    """Where its videos may be, in the folder of its annotations."""
    records: Callable[[Path], Iterable[tuple[str, Any]]]
    """Where each record of a folder is, for messages, and the record. Raises DatasetError for annotations
    that are missing or cannot be read."""
    captions: Callable[[Any, Units], Annotated]
    """The video and captions of a record. Raises DatasetError for a broken one."""

    def __call__(self, root: Path, units: Units) -> CaptionPairs:
        """The pairs in a folder. Raises DatasetError for annotations that are missing or cannot be read."""
        found, files = CaptionPairs(), VideoFiles(root)
        for where, record in self.records(root):
            try:
                name, captions = self.captions(record, units)
                annotated = [(_caption(caption), start, end) for caption, start, end in captions]
            except DatasetError as error:
                found.broken.append(f"{where}: {error}")
                continue
            if not annotated:
                continue
            # Looked for last: a broken record is reported also where its video is missing.
            video = files.video(name, *self.folders)
            if video.is_file():
                found.pairs += [CaptionPair(caption, video, start, end) for caption, start, end in annotated]
            else:
                found.missing[name] = found.missing.get(name, 0) + len(annotated)
        return found


def _caption(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(f"caption is {value!r}; it must be a non-empty string")
    # Line breaks of an annotation file are no part of a caption.
    return " ".join(value.split())


def span(start: Any, end: Any) -> tuple[float, float]:
    """An annotated interval in seconds. Raises DatasetError for an invalid or empty one."""
    if not (_is_time(start) and _is_time(end) and start < end):
        raise DatasetError(f"interval [{start!r}, {end!r}] must be a start before an end, in seconds")
    return float(start), float(end)


def moment(value: Any) -> float:
    """An annotated time in seconds. Raises DatasetError for an invalid one."""
    if not _is_time(value):
        raise DatasetError(f"time is {value!r}; it must be a number from 0")
    return float(value)


def _is_time(value: Any) -> bool:
    # JSON's true is an int in Python.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def named(record: Any, *names: str) -> list[Any]:
    """These fields of a record. Raises DatasetError if it is not an object or lacks one."""
    if not isinstance(record, dict):
        raise DatasetError("is not an object")
    lacking = [name for name in names if name not in record]
    if lacking:
        raise DatasetError(f"has no field {lacking[0]!r}")
    return [record[name] for name in names]


def file_name(value: Any) -> str:
    """A video's name in a record. Raises DatasetError if it is not a file name."""
    # It becomes a path below the folder of the source, and must not lead out of it.
    if not isinstance(value, str) or not value.strip() or value.startswith("/") or ".." in Path(value).parts:
        raise DatasetError(f"video name is {value!r}; it must be a file name")
    return value


def annotation_file(root: Path, source: str, *names: str) -> Path:
    """The first of these files in a source's folder. Raises DatasetError if none exists."""
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise DatasetError(
            f"{source}: {root / names[0]} does not exist; pass the folder with the official annotations"
        )
    return path


def read_json(path: Path, source: str) -> Any:
    """The value in a JSON file. Raises DatasetError if it cannot be read."""
    with reading_file(f"{source}: {path}", "download it again", DatasetError):
        return parse_json(path.read_text(encoding="utf-8"))


def _joined(captions: list[Any]) -> str:
    """The captions of a video's segments as one. Raises DatasetError if one is not a string."""
    wrong = [caption for caption in captions if not isinstance(caption, str) or not caption.strip()]
    if wrong:
        raise DatasetError(f"caption is {wrong[0]!r}; it must be a non-empty string")
    return ". ".join(caption.strip().rstrip(".") for caption in captions) + "."


def _activitynet_records(root: Path) -> Iterable[tuple[str, Any]]:
    """ActivityNet Captions (Krishna et al. 2017): `train.json`, from a video's name to its duration,
    timestamps and sentences. A pair for each sentence of the training split, with its segment or the whole
    video."""
    path = annotation_file(root, "activitynet", "train.json", "captions/train.json")
    content = read_json(path, "activitynet")
    if not isinstance(content, dict):
        raise DatasetError(f"activitynet: {path} must contain an object of videos; download it again")
    return [(f"{path}, {name!r}", (name, record)) for name, record in content.items()]


def _activitynet_captions(entry: Any, units: Units) -> Annotated:
    name, record = entry
    times, sentences = named(record, "timestamps", "sentences")
    if not isinstance(times, list) or not isinstance(sentences, list) or len(times) != len(sentences):
        raise DatasetError("'timestamps' and 'sentences' must be lists of equal length")
    if units == "videos":
        return file_name(name), [(sentence, 0.0, None) for sentence in sentences]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in times):
        raise DatasetError("'timestamps' must be a list of [start, end]")
    # Some start and end are swapped in the official file.
    spans = [span(*sorted((moment(pair[0]), moment(pair[1])))) for pair in times]
    return file_name(name), [(text, *at) for text, at in zip(sentences, spans, strict=True)]


def _openvid_records(root: Path) -> Iterator[tuple[str, Any]]:
    """OpenVid-1M (Nan et al. 2025): `OpenVid-1M.csv` with the columns "video", a file name, and "caption".
    Its videos come in many archives. A pair for each clip; `units` makes no difference."""
    path = annotation_file(root, "openvid", "OpenVid-1M.csv", "data/train/OpenVid-1M.csv")
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


def _openvid_captions(record: Any, units: Units) -> Annotated:
    name, caption = named(record, "video", "caption")
    if None in record or None in record.values():
        raise DatasetError("its columns differ from the first line's")
    return file_name(name), [(caption, 0.0, None)]


def _vitt_records(root: Path) -> Iterable[tuple[str, Any]]:
    """ViTT (Huang et al. 2020): `ViTT-annotations.json`, a JSON object a line with a video's YouTube-8M id
    and tags, each with the millisecond at which its segment begins. A pair for each tag, or for each
    annotation of a video. With `train_id.txt`, the official list, only its videos are used."""
    path, split = annotation_file(root, "vitt", "ViTT-annotations.json"), root / "train_id.txt"
    with reading_file(f"vitt: {path}", "download it again", DatasetError):
        lines = path.read_text(encoding="utf-8").splitlines()
        train = set(split.read_text(encoding="utf-8").split()) if split.is_file() else None
    return [(f"{path}, line {number}", (line, train)) for number, line in enumerate(lines, 1) if line.strip()]


def _vitt_captions(entry: Any, units: Units) -> Annotated:
    line, train = entry
    try:
        record = parse_json(line)
    except ValueError as error:
        raise DatasetError(f"invalid JSON ({error})") from error
    name, tags = named(record, "id", "annotations")
    if not isinstance(tags, list) or not tags:
        raise DatasetError("'annotations' must be a list of tags")
    pairs = [named(tag, "timestamp", "tag") for tag in tags]
    read = [(moment(time) / 1000, text) for time, text in pairs]
    if train is not None and file_name(name) not in train:
        return name, []
    if units == "videos":
        return file_name(name), [(_joined([text for _, text in read]), 0.0, None)]
    read.sort(key=lambda pair: pair[0])
    # A segment ends where the next begins.
    ends: list[float | None] = [*(time for time, _ in read[1:]), None]
    spans = [(text, time, end) for (time, text), end in zip(read, ends, strict=True)]
    # Tags at one time: the last of them has the segment.
    return file_name(name), [each for each in spans if each[2] is None or each[2] > each[1]]


def _moviechat_records(root: Path) -> Iterable[tuple[str, Any]]:
    """MovieChat-Caption: the captions of MovieChat-1K (Song et al. 2024), a JSON file a video in `jsons/`
    with the caption and, in "info", the video's file name. A pair for each video; `units` makes no
    difference."""
    paths = sorted((root / "jsons").glob("*.json"))
    if not paths:
        raise DatasetError(
            f"moviechat: {root / 'jsons'} has no .json files; pass the folder with the official annotations"
        )
    return [(str(path), path) for path in paths]


def _moviechat_captions(path: Any, units: Units) -> Annotated:
    info, caption = named(read_json(path, "moviechat"), "info", "caption")
    (name,) = named(info, "video_path")
    return file_name(name), [(caption, 0.0, None)]


def _youcook2_records(root: Path) -> Iterable[tuple[str, Any]]:
    """YouCook2 (Zhou et al. 2018): `youcookii_annotations_trainval.json`, whose "database" maps a YouTube id
    to a subset and annotations of a segment and a sentence each. Officially the videos are
    `raw_videos/training/RECIPE/ID.mp4`. A pair for each step of the training subset, or for each of its
    videos."""
    name = "youcookii_annotations_trainval.json"
    path = annotation_file(root, "youcook2", name, f"annotations/{name}")
    content = read_json(path, "youcook2")
    database = content.get("database") if isinstance(content, dict) else None
    if not isinstance(database, dict):
        raise DatasetError(f"youcook2: {path} has no object 'database'; download it again")
    return [
        (f"{path}, {name!r}", (name, record))
        for name, record in database.items()
        # A record that is no object is passed on, to be named as broken.
        if not isinstance(record, dict) or record.get("subset") == "training"
    ]


def _youcook2_captions(entry: Any, units: Units) -> Annotated:
    name, record = entry
    (steps,) = named(record, "annotations")
    if not isinstance(steps, list) or not steps:
        raise DatasetError("'annotations' must be a list of steps")
    read: list[tuple[str, float, float | None]] = []
    for step in steps:
        segment, sentence = named(step, "segment", "sentence")
        if not isinstance(segment, list) or len(segment) != 2:
            raise DatasetError("'segment' must be [start, end]")
        read.append((sentence, *span(*segment)))
    if units == "videos":
        return file_name(name), [(_joined([sentence for sentence, _, _ in read]), 0.0, None)]
    return file_name(name), read


_YOUTUBE = ("raw_videos", "videos", ".")
LONGVR: Mapping[str, Source] = {
    "activitynet": Source(("videos", "."), _activitynet_records, _activitynet_captions),
    "openvid": Source(("video", "videos", "."), _openvid_records, _openvid_captions),
    "vitt": Source(("videos", "."), _vitt_records, _vitt_captions),
    "moviechat": Source(_YOUTUBE, _moviechat_records, _moviechat_captions),
    "youcook2": Source(_YOUTUBE, _youcook2_records, _youcook2_captions),
}


def load_pairs(
    folders: Mapping[str, Path], units: Units, *, limits: Mapping[str, int], seed: int, skip_broken: bool
) -> list[CaptionPair]:
    """The pairs of all sources; prints the number of pairs of each, and what was left out.

    `folders`: from a source's name to its folder. `limits`: from a source's name to the number of its pairs
    to draw with `seed`. Raises ConfigError for an unknown source, DatasetError for a source without pairs
    and, unless `skip_broken`, for broken records."""
    for name in (*folders, *limits):
        if name not in LONGVR:
            raise ConfigError(f"unknown source {name!r}; {did_you_mean(name, list(LONGVR))}")
    pairs: list[CaptionPair] = []
    for name, folder in folders.items():
        if not folder.is_dir():
            raise DatasetError(f"{name}: folder {folder} does not exist; pass the folder of its annotations")
        source = LONGVR[name](folder, units)
        print(_report(name, source), flush=True)
        if source.broken and not skip_broken:
            raise DatasetError(
                f"{name}: {len(source.broken)} broken records: {first_of(source.broken, between='; ')}; fix "
                "them, or skip them with --skip-broken"
            )
        if not source.pairs:
            raise DatasetError(f"{name}: {folder}: all videos are missing: {first_of([*source.missing])}")
        drawn = source.pairs
        if name in limits and limits[name] < len(drawn):
            # By the number of pairs too: another set of videos is another draw.
            chosen = np.random.default_rng([seed, len(drawn)]).choice(len(drawn), limits[name], replace=False)
            drawn = [drawn[int(i)] for i in sorted(chosen)]
        pairs += drawn
    return pairs


def _report(name: str, source: CaptionPairs) -> str:
    lines = [f"{name}: {len(source.pairs):,} pairs"]
    if source.broken:
        lines.append(f"  {len(source.broken):,} broken records: {first_of(source.broken, between='; ')}")
    if source.missing:
        lost = sum(source.missing.values())
        lines.append(
            f"  {len(source.missing):,} missing videos ({lost:,} pairs): {first_of([*source.missing])}"
        )
    return "\n".join(lines)
