"""Sources of a benchmark's records and files: a downloaded folder, a single file, or a dataset on the hub
(`record_files`). Videos come from the folder (`video_files`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from videopro.benchmarks.base import Issue, Item
from videopro.benchmarks.fields import quoted
from videopro.benchmarks.record_files import HUB, LocatedRecord, UnreadableRecord, hub_records, read_records
from videopro.benchmarks.storable_items import check_storable
from videopro.benchmarks.video_files import VideoFiles
from videopro.errors import BenchmarkError, QuestionError, reading_file
from videopro.question import NO_OPTION
from videopro.storage import first_mistake, parse_json


@dataclass
class BenchmarkRecords:
    """The readable and the broken records of a benchmark."""

    items: list[Item] = field(default_factory=list)
    broken: list[Issue] = field(default_factory=list)
    defects: list[Issue] = field(default_factory=list)

    def read(
        self, rows: Iterable[LocatedRecord], item_of: Callable[[Mapping[str, Any], str], Item | None]
    ) -> None:
        """Convert each row to an item with `item_of`; None skips the row, and BenchmarkError or QuestionError
        marks it as broken."""
        locations = {item.id: "before" for item in self.items}
        for where, record in map(_located, rows):
            if isinstance(record, UnreadableRecord):
                self.broken.append(Issue(where, *record.problem))
                continue
            try:
                item = item_of(record, where)
                if item is not None:
                    _check(item)
            except (BenchmarkError, QuestionError) as error:
                self.broken.append(Issue.of(where, error))
                continue
            except Exception as error:
                # A mistake in the benchmark's own code: its traceback is needed, with the record that caused
                # it.
                error.add_note(f"at {where}")
                raise
            if item is None:
                continue
            if item.id in locations:
                self.broken.append(
                    Issue(
                        where, f"duplicate id {item.id!r}, first {locations[item.id]}", "ids must be unique"
                    )
                )
                continue
            if len(set(item.question.choices)) < len(item.question.choices):
                problem = f"question {item.id!r} has two identical options"
                self.defect(where, problem, "either one counts")
            locations[item.id] = f"in {where}"
            self.items.append(item)

    def defect(self, where: str, problem: str, read_as: str) -> None:
        """Record an annotation error in a record that is used anyway, and how it was read."""
        self.defects.append(Issue(where, problem, read_as))


def _located(row: Any) -> LocatedRecord:
    """A row as a pair of a location and a record. Raises TypeError for anything else, which a user's code may
    return."""
    if isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], Mapping):
        return row
    raise TypeError(
        f"rows returns {quoted(row)}; it must return pairs of a location, such as 'val.csv, line 2', "
        "and a record with fields"
    )


_ITEM = TypeAdapter(Item)


def _check(item: Item) -> None:
    """Raise BenchmarkError or QuestionError for an item that would be scored wrongly or cannot be stored,
    which a user's benchmark may make."""
    if not isinstance(item, Item):
        raise BenchmarkError(f"item returns a {type(item).__name__}; return an Item, or None to skip it")
    try:
        _ITEM.validate_python(item)
    except ValidationError as error:
        raise BenchmarkError(f"item returns an invalid Item: {first_mistake(error)}") from None
    for pair in (*item.evidence, *item.shown):
        if not 0 <= pair[0] <= pair[1] < math.inf:
            raise BenchmarkError(
                f"item returns an Item with the interval {pair}; it must be (start, end) in seconds"
            )
    if item.question.is_open and item.answer is not None:
        raise BenchmarkError(
            f"item returns an open question with the answer letter {item.answer!r}; use reference instead"
        )
    if not item.question.is_open and item.answer not in (None, NO_OPTION):
        item.question.choice(item.answer)
    check_storable(item)


@dataclass(frozen=True)
class Source:
    """A benchmark's folder, and the file or dataset with its records if it is not the official one."""

    name: str
    """The benchmark's name, for messages."""
    root: Path
    annotations: str = ""

    @property
    def on_hub(self) -> bool:
        """Whether the records come from the hub; the videos are in the folder."""
        return self.annotations.startswith(HUB)

    @cached_property
    def files(self) -> VideoFiles:
        """The files of the folder."""
        return VideoFiles(self.root)

    def rows(self, *official: str, hub: Sequence[str] = (), take: bool = True) -> list[LocatedRecord]:
        """The records of `annotations` if given (and `take`), otherwise of the first `official` file that
        exists. `hub`: default configuration and split of a hub dataset. Raises BenchmarkError if the
        whole source is missing or unreadable."""
        if self.annotations and take:
            if self.on_hub:
                return list(hub_records(self.annotations.removeprefix(HUB), hub, self.name))
            return list(read_records(Path(self.annotations), self.name))
        return list(read_records(self.file(*official), self.name))

    def optional_file(self, *official: str) -> Path | None:
        """The first of these files that exists in the folder, or one level below it."""
        for name in official:
            # The file, or its folder, may be one folder deeper, as in a snapshot of the hub.
            deeper = (*self.root.glob(f"*/{name}"), *self.root.glob(f"*/{Path(name).name}"))
            for path in (self.root / name, *sorted(deeper)):
                if path.is_file():
                    return path
        return None

    def file(self, *official: str) -> Path:
        """The first of these files that exists in the folder. Raises BenchmarkError if none does."""
        if not self.root.is_dir():
            raise BenchmarkError(
                f"{self.name}: folder {self.root} does not exist; set --root to the folder that "
                f"contains {official[0]}"
            )
        if path := self.optional_file(*official):
            return path
        alternatives = f" (nor {', '.join(official[1:])})" if official[1:] else ""
        raise BenchmarkError(
            f"{self.name}: {self.root / official[0]}{alternatives} does not exist; set --root to the folder "
            "of the official files, or --annotations to the file itself"
        )

    def annotation_file(self, *official: str) -> Path:
        """`annotations`, if given, otherwise the first of these files: for record formats that `rows` does
        not read. Raises BenchmarkError if none exists, and for the hub."""
        if self.on_hub:
            raise BenchmarkError(
                f"{self.name}: cannot be read from {self.annotations}; pass a file with --annotations"
            )
        return Path(self.annotations) if self.annotations else self.file(*official)

    def object(self, path: Path, of: str) -> dict[str, Any]:
        """The JSON object in a file of the folder, such as ids and answers. Raises BenchmarkError for
        anything else; `of` names the expected contents."""
        with reading_file(f"{self.name}: {path}", "download it again", BenchmarkError):
            content = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise BenchmarkError(f"{self.name}: {path} must contain an object of {of}; download it again")
        return content
