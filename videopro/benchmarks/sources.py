"""Where a benchmark's records and files come from: a folder as it was downloaded, one file, or a dataset
on the hub.

A file of records is read by its ending (.json, .jsonl, .csv, .tsv, .parquet); a name `hf:REPO` or
`hf:REPO:CONFIG:SPLIT` goes through `datasets`. Knows files; must not know what any benchmark's records mean,
and opens no video.
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
from videopro.storage import InvalidJson, parse_json, parse_json_list

VIDEO_ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")
HUB = "hf:"

# Where a record stands, and the record.
LocatedRecord: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass
class BenchmarkRecords:
    """What was read of a benchmark, and what could not be."""

    items: list[Item] = field(default_factory=list)
    broken: list[Issue] = field(default_factory=list)
    defects: list[Issue] = field(default_factory=list)

    def read(
        self, rows: Iterable[LocatedRecord], item_of: Callable[[Mapping[str, Any], str], Item | None]
    ) -> None:
        """Make an item of each row; None leaves a row out. A row that raises BenchmarkError is broken."""
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
                    Issue(where, f"id {item.id!r} comes twice, first {places[item.id]}", "ids must differ")
                )
                continue
            if len(set(item.question.choices)) < len(item.question.choices):
                twins = f"question {item.id!r} has two options with the same words"
                self.defect(where, twins, "such options count alike")
            places[item.id] = f"in {where}"
            self.items.append(item)

    def defect(self, where: str, what: str, read_as: str) -> None:
        """Note a fault of the annotation that was read all the same."""
        self.defects.append(Issue(where, what, read_as))


class UnreadableRecord(dict[str, Any]):
    """Stands for a record that is none; `problem` is what is wrong and what mends it."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__()
        self.problem = (what, mend)


class VideoFiles:
    """Finds videos and subtitles under a folder: in the usual places first, then anywhere below it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def video(self, name: str, *folders: str) -> Path:
        """The file of a video, `name` with or without its ending; the first usual place if there is none."""
        stem = Path(name).name.removesuffix(_ending(name))
        endings = (_ending(name),) if _ending(name) else VIDEO_ENDINGS
        places = [
            self.root / folder / f"{name.removesuffix(_ending(name))}{e}"
            for folder in folders
            for e in endings
        ]
        for place in places:
            if _is_there(place):
                return place
        return self._anywhere.get(stem, places[0])

    def beside(self, name: str, *folders: str) -> Path | None:
        """A file that need not be there, such as subtitles, in one of these folders."""
        places = (self.root / folder / name for folder in folders)
        return next((place for place in places if _is_there(place)), None)

    def folder(self, *folders: str) -> Path | None:
        """The first of these folders that exists."""
        return next((self.root / one for one in folders if (self.root / one).is_dir()), None)

    @cached_property
    def _anywhere(self) -> dict[str, Path]:
        # Of several files of one name the first in order is as good as any; a name that two videos of one
        # benchmark share is found in its usual place.
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
    """Of the benchmark, for messages."""
    root: Path
    annotations: str = ""

    @cached_property
    def files(self) -> VideoFiles:
        """The files of the folder."""
        return VideoFiles(self.root)

    def rows(self, *official: str, hub: Sequence[str] = (), take: bool = True) -> list[LocatedRecord]:
        """The records: of `annotations` if it is given (and `take`), else of the first of the `official`
        files that exists. `hub`: configuration and split of a dataset for which `annotations` names none.
        Raises BenchmarkError for what is missing or unreadable as a whole."""
        if self.annotations and take:
            if self.annotations.startswith(HUB):
                return list(_from_hub(self.annotations.removeprefix(HUB), hub, self.name))
            return list(read_rows(Path(self.annotations), self.name))
        return list(read_rows(self.file(*official), self.name))

    def file(self, *official: str) -> Path:
        """The first of these files that exists in the folder. Raises BenchmarkError, naming what would mend
        it."""
        if not self.root.is_dir():
            raise BenchmarkError(
                f"{self.name}: folder {self.root} does not exist; give the folder that holds {official[0]} "
                "with --root"
            )
        for one in official:
            # The same file may lie one folder deeper, as a snapshot of the hub has it.
            for path in (self.root / one, *sorted(self.root.glob(f"*/{Path(one).name}"))):
                if path.is_file():
                    return path
        others = f" (nor {', '.join(official[1:])})" if official[1:] else ""
        raise BenchmarkError(
            f"{self.name}: {self.root / official[0]}{others} does not exist; give the folder with the "
            "official files with --root, or the file itself with --annotations"
        )

    def object(self, path: Path, of: str) -> dict[str, Any]:
        """The one object that a JSON file of the folder holds, such as ids and answers. Raises
        BenchmarkError for anything else; `of` says what it is to hold."""
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"{self.name}: {path} cannot be read ({error}); fetch it again") from error
        if not isinstance(content, dict):
            raise BenchmarkError(f"{self.name}: {path} must hold an object of {of}; fetch it again")
        return content


def read_rows(path: Path, name: str) -> Iterator[LocatedRecord]:
    """The records of a file, each with where it stands. Raises BenchmarkError for a file that is no such
    file; a line that is broken by itself comes as `UnreadableRecord`."""
    reader = {
        ".json": _json,
        ".jsonl": _jsonl,
        ".csv": _table,
        ".tsv": _table,
        ".parquet": _parquet,
    }.get(path.suffix.lower())
    if reader is None:
        raise BenchmarkError(
            f"{name}: {path} is of no kind that can be read; give a .json, .jsonl, .csv, .tsv or "
            ".parquet file"
        )
    try:
        yield from reader(path, name)
    except FileNotFoundError as error:
        raise BenchmarkError(f"{name}: {path} does not exist; check --root and --annotations") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"{name}: {path} cannot be read ({error}); fetch it again") from error


def _json(path: Path, name: str) -> Iterator[LocatedRecord]:
    try:
        content = parse_json_list(path.read_text(encoding="utf-8"))
    except InvalidJson as error:
        raise BenchmarkError(
            f"{name}: {path} cannot be read: broken JSON ({error}); it may be cut short: fetch it again"
        ) from error
    if not isinstance(content, list):
        raise BenchmarkError(
            f"{name}: {path} must hold a list of objects, not a {type(content).__name__}; is it the "
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
            raise BenchmarkError(f"{name}: {path} has two columns of one name; fetch it again")
        try:
            for record in reader:
                # A row may take several lines; this is its last one.
                where = f"{path}, line {reader.line_num}"
                lacking = [key for key, value in record.items() if value is None]
                if lacking or None in record:
                    yield (
                        where,
                        UnreadableRecord(
                            f"has another number of columns than the {len(reader.fieldnames or ())} of "
                            "the first line",
                            "fetch the file again, or mend the line",
                        ),
                    )
                else:
                    yield where, record
        except csv.Error as error:
            raise BenchmarkError(
                f"{name}: {path}, line {reader.line_num}: {error}; fetch it again"
            ) from error


def _parquet(path: Path, name: str) -> Iterator[LocatedRecord]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BenchmarkError(f"{name}: {path} needs pyarrow; pip install 'videopro[benchmarks]'") from error
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        raise BenchmarkError(f"{name}: {path} is no whole parquet file ({error}); fetch it again") from error
    for number, record in enumerate(rows, start=1):
        yield f"{path}, row {number}", record


def _from_hub(spec: str, default: Sequence[str], name: str) -> Iterator[LocatedRecord]:
    """Records of `REPO`, `REPO:CONFIG` or `REPO:CONFIG:SPLIT`, through `datasets` (offline: its cache)."""
    try:
        import datasets
    except ImportError as error:
        raise BenchmarkError(
            f"{name}: {HUB}{spec} needs datasets; pip install 'videopro[benchmarks]'"
        ) from error
    repo, *given = spec.split(":")
    config, split = [*given, *default[len(given) :], "", ""][:2]
    try:
        rows = datasets.load_dataset(repo, config or None, split=split or "test")
    except (OSError, ValueError) as error:
        # What datasets raises for a missing repository, configuration or split, and without a network.
        raise BenchmarkError(
            f"{name}: {HUB}{spec} cannot be read through datasets ({error}); write "
            f"{HUB}REPO:CONFIG:SPLIT, or download it and give --root"
        ) from error
    for number, record in enumerate(rows, start=1):
        yield f"{HUB}{spec}, row {number}", record


def _checked(record: Any) -> Mapping[str, Any]:
    if isinstance(record, dict):
        return record
    if isinstance(record, InvalidJson):
        return UnreadableRecord(f"is not JSON ({record})", "fetch the file again, or mend the record")
    return UnreadableRecord(f"is a {type(record).__name__}, not an object", "fetch the file again")
