"""Sources of a benchmark's records and files: a downloaded folder, a single file, or a dataset on the hub.

The file extension decides how records are read (.json, .jsonl, .csv, .tsv, .parquet); a name `hf:REPO` or
`hf:REPO:CONFIG:SPLIT` is loaded with `datasets`. Opens no video.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from videopro.benchmarks.base import Issue, Item
from videopro.errors import BenchmarkError, QuestionError
from videopro.extras import needs_extra
from videopro.storage import InvalidJson, parse_json, parse_json_list

VIDEO_ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")
HUB = "hf:"

# A record's location (file and line or row), and the record.
LocatedRecord: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass
class BenchmarkRecords:
    """The records of a benchmark that could be read, and those that could not."""

    items: list[Item] = field(default_factory=list)
    broken: list[Issue] = field(default_factory=list)
    defects: list[Issue] = field(default_factory=list)

    def read(
        self, rows: Iterable[LocatedRecord], item_of: Callable[[Mapping[str, Any], str], Item | None]
    ) -> None:
        """Convert each row to an item with `item_of`; None skips the row, and BenchmarkError or QuestionError
        marks it as broken."""
        places = {item.id: "before" for item in self.items}
        for where, record in rows:
            if isinstance(record, UnreadableRecord):
                self.broken.append(Issue(where, *record.problem))
                continue
            try:
                item = item_of(record, where)
            except (BenchmarkError, QuestionError) as error:
                self.broken.append(Issue.of(where, error))
                continue
            if item is None:
                continue
            if item.id in places:
                self.broken.append(
                    Issue(where, f"duplicate id {item.id!r}, first {places[item.id]}", "ids must be unique")
                )
                continue
            if len(set(item.question.choices)) < len(item.question.choices):
                problem = f"question {item.id!r} has two identical options"
                self.defect(where, problem, "either one counts")
            places[item.id] = f"in {where}"
            self.items.append(item)

    def defect(self, where: str, what: str, read_as: str) -> None:
        """Note an annotation error in a record that is used nevertheless, and how it was read."""
        self.defects.append(Issue(where, what, read_as))


class UnreadableRecord(dict[str, Any]):
    """Placeholder for a record that cannot be read; `problem` is what is wrong and how to fix it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__()
        self.problem = (what, fix)


class VideoFiles:
    """Finds videos and subtitles under a folder: in the usual subfolders first, then anywhere below it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def video(self, name: str, *folders: str) -> Path:
        """The path of a video, `name` with or without extension; the first usual path if no file exists."""
        stem = Path(name).name.removesuffix(_ending(name))
        endings = (_ending(name),) if _ending(name) else VIDEO_ENDINGS
        places = [
            self.root / folder / f"{name.removesuffix(_ending(name))}{ending}"
            for folder in folders
            for ending in endings
        ]
        for place in places:
            if _is_there(place):
                return place
        return self._anywhere.get(stem, places[0])

    def optional_file(self, name: str, *folders: str) -> Path | None:
        """An optional file, such as subtitles, in one of these folders; None if no folder has it."""
        places = (self.root / folder / name for folder in folders)
        return next((place for place in places if _is_there(place)), None)

    def folder(self, *folders: str) -> Path | None:
        """The first of these folders that exists."""
        return next((self.root / folder for folder in folders if (self.root / folder).is_dir()), None)

    @cached_property
    def _anywhere(self) -> dict[str, Path]:
        # Several files with one name are copies, so any will do; videos of one benchmark that share a name
        # are found in their usual folders.
        return {
            path.stem: path
            for path in sorted(self.root.rglob("*"), reverse=True)
            if path.suffix.lower() in VIDEO_ENDINGS
        }


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name or path that is too long for the file system
        return False


def _ending(name: str) -> str:
    suffix = Path(name).suffix
    return suffix if suffix.lower() in VIDEO_ENDINGS else ""


@dataclass(frozen=True)
class Source:
    """A benchmark's folder, and the file or dataset with its records if that is not the official one."""

    name: str
    """The benchmark's name, for messages."""
    root: Path
    annotations: str = ""

    @cached_property
    def files(self) -> VideoFiles:
        """The files of the folder."""
        return VideoFiles(self.root)

    def rows(self, *official: str, hub: Sequence[str] = (), take: bool = True) -> list[LocatedRecord]:
        """The records of `annotations` if given (and `take`), otherwise of the first of the `official` files
        that exists. `hub`: default configuration and split of a hub dataset. Raises BenchmarkError if the
        whole source is missing or unreadable."""
        if self.annotations and take:
            if self.annotations.startswith(HUB):
                return list(_from_hub(self.annotations.removeprefix(HUB), hub, self.name))
            return list(read_records(Path(self.annotations), self.name))
        return list(read_records(self.file(*official), self.name))

    def file(self, *official: str) -> Path:
        """The first of these files that exists in the folder. Raises BenchmarkError if none does."""
        if not self.root.is_dir():
            raise BenchmarkError(
                f"{self.name}: folder {self.root} does not exist; give the folder that contains "
                f"{official[0]} with --root"
            )
        for name in official:
            # The file may be one folder deeper, as in a snapshot of the hub.
            for path in (self.root / name, *sorted(self.root.glob(f"*/{Path(name).name}"))):
                if path.is_file():
                    return path
        others = f" (nor {', '.join(official[1:])})" if official[1:] else ""
        raise BenchmarkError(
            f"{self.name}: {self.root / official[0]}{others} does not exist; give the folder with the "
            "official files with --root, or the file itself with --annotations"
        )

    def object(self, path: Path, of: str) -> dict[str, Any]:
        """The JSON object in a file of the folder, such as ids and answers. Raises BenchmarkError for
        anything else; `of` names the expected contents."""
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BenchmarkError(
                f"{self.name}: {path} cannot be read ({error}); download it again"
            ) from error
        if not isinstance(content, dict):
            raise BenchmarkError(f"{self.name}: {path} must contain an object of {of}; download it again")
        return content


def read_records(path: Path, name: str) -> Iterator[LocatedRecord]:
    """The records of a file, each with its location. Raises BenchmarkError if the file cannot be read; a
    single broken record comes as `UnreadableRecord`."""
    reader = {
        ".json": _json,
        ".jsonl": _jsonl,
        ".csv": _table,
        ".tsv": _table,
        ".parquet": _parquet,
    }.get(path.suffix.lower())
    if reader is None:
        raise BenchmarkError(
            f"{name}: {path} has an unsupported file type; give a .json, .jsonl, .csv, .tsv or .parquet file"
        )
    try:
        yield from reader(path, name)
    except FileNotFoundError as error:
        raise BenchmarkError(f"{name}: {path} does not exist; check --root and --annotations") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"{name}: {path} cannot be read ({error}); download it again") from error


def _json(path: Path, name: str) -> Iterator[LocatedRecord]:
    try:
        content = parse_json_list(path.read_text(encoding="utf-8"))
    except InvalidJson as error:
        raise BenchmarkError(
            f"{name}: {path} cannot be read: invalid JSON ({error}); it may be truncated: download it again"
        ) from error
    if not isinstance(content, list):
        raise BenchmarkError(
            f"{name}: {path} must contain a list of objects, not a {type(content).__name__}; is it the "
            "annotation file?"
        )
    for number, record in enumerate(content, start=1):
        yield f"{path}, record {number}", _checked(record)


def _jsonl(path: Path, name: str) -> Iterator[LocatedRecord]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                record = parse_json(line)
            except InvalidJson as error:
                record = error
            yield f"{path}, line {number}", _checked(record)


def _table(path: Path, name: str) -> Iterator[LocatedRecord]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            raise BenchmarkError(f"{name}: {path} has two columns with the same name; download it again")
        try:
            for record in reader:
                # A row may span several lines; this is its last one.
                where = f"{path}, line {reader.line_num}"
                lacking = [key for key, value in record.items() if value is None]
                if lacking or None in record:
                    yield (
                        where,
                        UnreadableRecord(
                            f"does not have the {len(reader.fieldnames or ())} columns of the first line",
                            "download the file again, or fix the line",
                        ),
                    )
                else:
                    yield where, record
        except csv.Error as error:
            raise BenchmarkError(
                f"{name}: {path}, line {reader.line_num}: {error}; download it again"
            ) from error


def _parquet(path: Path, name: str) -> Iterator[LocatedRecord]:
    with needs_extra("benchmarks", f"{name}: {path}"):
        import pyarrow
        import pyarrow.parquet
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        raise BenchmarkError(
            f"{name}: {path} is not a valid parquet file ({error}); download it again"
        ) from error
    for number, record in enumerate(rows, start=1):
        yield f"{path}, row {number}", record


def _from_hub(spec: str, default: Sequence[str], name: str) -> Iterator[LocatedRecord]:
    """Records of `REPO`, `REPO:CONFIG` or `REPO:CONFIG:SPLIT`, through `datasets` (offline: its cache)."""
    with needs_extra("benchmarks", f"{name}: {HUB}{spec}"):
        import datasets
    repo, *given = spec.split(":")
    config, split = [*given, *default[len(given) :], "", ""][:2]
    try:
        rows = datasets.load_dataset(repo, config or None, split=split or "test")
    except (OSError, ValueError) as error:
        # datasets raises these for a missing repository, configuration or split, and without a network.
        raise BenchmarkError(
            f"{name}: {HUB}{spec} cannot be loaded with datasets ({error}); write "
            f"{HUB}REPO:CONFIG:SPLIT, or download it and give --root"
        ) from error
    for number, record in enumerate(rows, start=1):
        yield f"{HUB}{spec}, row {number}", record


def _checked(record: Any) -> Mapping[str, Any]:
    if isinstance(record, dict):
        return record
    if isinstance(record, InvalidJson):
        return UnreadableRecord(f"is not valid JSON ({record})", "download the file again, or fix the record")
    return UnreadableRecord(f"is a {type(record).__name__}, not an object", "download the file again")
