"""Videos of evaluation splits, and the check that none of them is used for training.

A video is identified by the content of its file, whatever its name; if the file is missing, by the name
that its benchmark gives it; one that is drawn also by what it is drawn from. A video of YouTube or
Bilibili whose name is its id there is identified by that too: another download of it is another file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS, CG_BENCH_FILES, Item, read_records
from videopro.data_synthesis.questions import drawn
from videopro.errors import BenchmarkError, ConfigError, reading_file
from videopro.storage import parse_json
from videopro.video import content_if_readable, files_below

MINI = "CG-Bench mini"


@dataclass(frozen=True)
class HeldOutQuestions:
    """Questions of a source that are for evaluation."""

    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    """As `comparable` gives them."""


def comparable(text: str) -> str:
    """A question's text without case, spaces and punctuation, in which copies may differ."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def mini_questions(folder: Path) -> HeldOutQuestions:
    """The questions of CG-Bench mini, whose annotations are in this folder. Raises ConfigError."""
    path = folder / CG_BENCH_FILES["mini"]
    records = cg_bench_records(path)
    nameless = next((number for number, row in enumerate(records, start=1) if "qid" not in row), None)
    if nameless is not None:
        raise ConfigError(
            f"{path}, record {nameless}: field 'qid' is missing, so evaluation questions cannot be "
            "identified; pass the official file, or --cg-bench-mini training"
        )
    return HeldOutQuestions(
        frozenset(str(row["qid"]) for row in records),
        frozenset(comparable(str(row["question"])) for row in records if row.get("question")),
    )


def cg_bench_records(path: Path) -> list[Any]:
    """The records of an annotation file of CG-Bench. Raises ConfigError."""
    try:
        return [record for _, record in read_records(path, "cg_bench")]
    except BenchmarkError as error:
        raise ConfigError(str(error)) from error


def set_aside(items: Iterable[Item], count: int, seed: int) -> frozenset[str]:
    """The keys of `count` of the videos, drawn by seed. Which are drawn depends on nothing but their keys, so
    that a file in another order sets the same ones aside. Raises ConfigError if that leaves none."""
    videos = {item.video_key for item in items}
    if count >= len(videos):
        raise ConfigError(
            f"held_out_videos is {count}, but the source has {len(videos)} videos; pass a smaller number"
        )
    return frozenset(sorted(videos, key=lambda video: drawn(video, f"{seed} held out"))[:count])


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


_UPLOAD = re.compile(r"[A-Za-z0-9_-]{11}|BV[A-Za-z0-9]{10}")
"""Ids of YouTube and of Bilibili, which CG-Bench, Video-MME, LVBench and LongVideoBench name videos by."""
_NAMED_BENCHMARK = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)(?:/(?P<split>[\w.-]+))?:(?P<root>.+)")


@dataclass(frozen=True)
class EvaluationVideo:
    """A video of an evaluation split."""

    description: str
    part_of: str
    """Its split or files."""
    by: str = "content"
    """How it is identified."""

    @property
    def reason(self) -> str:
        """Why a question about it is skipped."""
        return f"{self.part_of}, by {self.by}"

    def __str__(self) -> str:
        return self.description


@dataclass
class EvaluationVideos:
    """Videos of evaluation splits, and the texts of their questions where those count too."""

    contents: dict[str, EvaluationVideo] = field(default_factory=dict)
    """By content id (`Video.id`)."""
    names: dict[str, EvaluationVideo] = field(default_factory=dict)
    """By file name without its extension."""
    seeds: dict[tuple[str, int], EvaluationVideo] = field(default_factory=dict)
    """Drawn videos by length and seed."""
    texts: frozenset[str] = frozenset()
    """Of questions, as `comparable` gives them."""

    def add_file(self, path: Path, where: str, part_of: str) -> None:
        """Add a video by its content, or by its name if the file is not there."""
        content = content_if_readable(path)
        if content is None:
            missing = f"{where} (by its name: {path} is missing)"
            self.names[path.stem] = EvaluationVideo(missing, part_of, "name")
        else:
            self.contents[content] = EvaluationVideo(where, part_of)

    def add_texts(self, texts: Iterable[str]) -> None:
        """Add the texts of questions."""
        self.texts |= {comparable(text) for text in texts}

    def evaluated_in(
        self, path: Path, key: str, content: str | None, seeds: Mapping[str, tuple[str, int]]
    ) -> EvaluationVideo | None:
        """The video of an evaluation split that this one is, or None. `key`: its benchmark's name for it;
        `seeds`: what drawn videos are made from, by their names."""
        return (
            # From the cheapest: a name needs no file to be read.
            self.names.get(path.stem)
            or self.names.get(key)
            or self.seeds.get(seeds.get(path.stem, ("", -1)))
            or self.contents.get(content or "")
        )

    def __len__(self) -> int:
        return len(self.contents) + len(self.names) + len(self.seeds)


def evaluation_videos(
    exclude: Sequence[str | Path] = (), *, cg_bench: Path | None = None
) -> EvaluationVideos:
    """All videos that are known to be for evaluation: what benchmarks hold out by themselves, what `exclude`
    names (a folder of videos, a JSONL with "video" or "videos", an annotation file of CG-Bench, or a
    benchmark as NAME[/SPLIT]:FOLDER), and CG-Bench mini in the folder `cg_bench`. Raises ConfigError for an
    `exclude` that cannot be read."""
    excluded = EvaluationVideos()
    for source in BENCHMARKS.working():
        for split, origins, files in source.held_out():
            part_of = f"{source.name}'s split {split!r}"
            for name, origin in origins.items():
                excluded.seeds[origin] = EvaluationVideo(f"video {name} of {part_of}", part_of, "seed")
            for path in files:
                excluded.add_file(path, f"video {path.stem} of {part_of}", part_of)
    if cg_bench is not None:
        _add_cg_bench(excluded, cg_bench / CG_BENCH_FILES["mini"], MINI, MINI)
    for entry in exclude:
        path = Path(entry)
        named = None if path.exists() else _NAMED_BENCHMARK.fullmatch(str(entry))
        if named is not None:
            _add_benchmark(excluded, named["name"], named["split"] or "", Path(named["root"]))
        elif path.is_dir():
            _add_folder(excluded, path)
        elif path.suffix == ".json":
            _add_cg_bench(excluded, path, path.name, str(path))
        else:
            add_rows(excluded, path, "exclude")
    return excluded


def _add_benchmark(excluded: EvaluationVideos, name: str, split: str, root: Path) -> None:
    """Add the videos and questions of a benchmark."""
    try:
        # The paper's own form of the questions: it needs no subtitles to be there.
        names = [protocol.name for protocol in BENCHMARKS[name].protocols]
        protocol = "videopro" if "videopro" in names else ""
        benchmark = benchmarks.load(name, split=split, root=root, protocol=protocol, skip_broken=True)
    except (BenchmarkError, ConfigError) as error:
        # Its advice is about --root.
        problem, _, _ = str(error).partition("; ")
        raise ConfigError(f"exclude: {problem}; pass {name}:FOLDER with the folder of its files") from error
    part_of = f"{benchmark.name} {benchmark.split}".rstrip()
    for key, path in sorted({(item.video_key, item.video) for item in benchmark.items}):
        where = f"video {key} of {part_of}"
        excluded.add_file(path, where, part_of)
        for upload in {key, path.stem}:
            if _UPLOAD.fullmatch(upload):
                excluded.names[upload] = EvaluationVideo(where, part_of, "id")
    excluded.add_texts(item.question.text for item in benchmark.items)


def _add_folder(excluded: EvaluationVideos, folder: Path) -> None:
    files = [p for p in sorted(files_below(folder)) if p.suffix.lower() not in _NOT_VIDEOS]
    if not files:
        raise ConfigError(f"exclude: no videos in {folder}")
    for path in files:
        excluded.add_file(path, f"{path.name} in {folder}", folder.name)


def _add_cg_bench(excluded: EvaluationVideos, path: Path, part_of: str, shown_as: str) -> None:
    try:
        records = cg_bench_records(path)
    except ConfigError as error:
        raise ConfigError(f"exclude: {error}") from error
    # The annotations may come without the videos, so the ids count by themselves.
    for uid in sorted({str(record["video_uid"]) for record in records if "video_uid" in record}):
        where = f"video {uid} of {shown_as}"
        excluded.names[uid] = EvaluationVideo(where, part_of, "id")
        if content := content_if_readable(path.parent / "cg_videos_720p" / f"{uid}.mp4"):
            excluded.contents[content] = EvaluationVideo(where, part_of)
    excluded.add_texts(str(record["question"]) for record in records if record.get("question"))


def add_rows(excluded: EvaluationVideos, path: Path, setting: str) -> None:
    """Add the videos of a JSONL, which the setting names. Raises ConfigError."""
    fix = (
        "pass a folder of videos, a JSONL with 'video' or 'videos' in each line, a CG-Bench annotation file "
        "(.json), or a benchmark as NAME:FOLDER"
    )
    with reading_file(f"{setting}: {path}", fix, ConfigError):
        lines = path.read_text(encoding="utf-8").splitlines()
    videos: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            videos.update(_videos_of(line, f"{setting}: {path}, line {number}"))
    if not videos:
        raise ConfigError(f"{setting}: {path} contains no videos")
    for video in sorted(videos):
        excluded.add_file(path.parent / video, f"{video} in {path}", path.name)


def _videos_of(line: str, where: str) -> Iterable[str]:
    try:
        record = parse_json(line)
    except ValueError as error:
        raise ConfigError(f"{where}: invalid JSON ({error})") from error
    named = record.get("videos", record.get("video")) if isinstance(record, dict) else None
    videos = [named] if isinstance(named, str) else named
    if not isinstance(videos, list) or not all(isinstance(video, str) for video in videos):
        raise ConfigError(f"{where}: neither 'video' nor a list 'videos'")
    return videos


def find_evaluation_videos(
    items: Iterable[Item], excluded: EvaluationVideos, seeds: Mapping[str, tuple[str, int]]
) -> dict[str, EvaluationVideo]:
    """Which videos of these questions are for evaluation: the videos' keys, each with what it is. `seeds`:
    what drawn videos are made from, by their names."""
    evaluated: dict[str, EvaluationVideo] = {}
    for key, path in {item.video_key: item.video for item in items}.items():
        # Over a thousand long videos, their contents are worth reading only if there is one to compare.
        content = content_if_readable(path) if excluded.contents else None
        video = excluded.evaluated_in(path, key, content, seeds)
        if video is not None:
            evaluated[key] = video
    return evaluated
