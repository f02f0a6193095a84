"""Benchmarks by name: the description of an official benchmark or of your own, and the loading that all
share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import Benchmark, Issue, Item
from videopro.benchmarks.fields import is_time
from videopro.benchmarks.protocol import ROBUST, Protocol, check_protocol
from videopro.benchmarks.record_files import LocatedRecord
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError, first_of
from videopro.plugins import Registry
from videopro.question import OFFICIAL_EXTRACTORS, Parser, Question, Reading

# Names that the command line has for other things.
_RESERVED = ("jsonl", "videopro")


@dataclass(frozen=True)
class LoadOptions:
    """How the questions of a benchmark are read; empty: the default."""

    protocol: str = ""
    annotations: str = ""
    """The file with the records."""
    skip_broken: bool = False
    world_seed: int | None = None
    """Of a benchmark that generates its videos."""


class LoadableBenchmark(ABC):
    """A benchmark with a name. `BenchmarkSpec` describes benchmarks of published files; subclass this for a
    benchmark that generates its videos."""

    name: str
    splits: tuple[str, ...]
    """The first is the default."""
    holds: str
    """What its folder contains, for messages."""
    protocols: tuple[Protocol, ...]
    """The first is the default; empty: a single protocol without a name."""
    subtitle_folders: tuple[str, ...] = ()
    training_split: str = ""
    """The split for synthesis; empty: the default."""
    needs_root: bool = True
    """Whether its files are in a folder that the user names."""

    @abstractmethod
    def load(self, root: Path | None, split: str, given: LoadOptions) -> Benchmark:
        """The questions of a split; empty: the default. Raises BenchmarkError for an unsupported setting, a
        wrong folder, and broken records unless they are skipped."""

    def drawn_from(self, split: str, world_seed: int | None = None) -> Mapping[str, tuple[str, int]]:
        """What each video of a split is generated from, by name; equal values mean the same video. Empty for
        videos that are not generated."""
        return {}

    def held_out(self) -> Iterable[tuple[str, Mapping[str, tuple[str, int]], Iterable[Path]]]:
        """Evaluation splits, which training must not use: their names, what their videos are generated from,
        and the videos on this machine. For published benchmarks, the user names these splits."""
        return ()

    def _refuse(self, given: LoadOptions, *names: str) -> None:
        """Raise BenchmarkError for a given setting, of these names, that it does not have."""
        for name in names:
            if getattr(given, name) not in (None, ""):
                raise BenchmarkError(f"{self.name}: has no --{name.replace('_', '-')}; leave it out")


def each_row(
    rows: Callable[[Source, str], Iterable[LocatedRecord]],
    item: Callable[[Mapping[str, Any], Source, str], Item | None],
) -> Callable[[Source, str], BenchmarkRecords]:
    """A `BenchmarkSpec.read` that makes a question of each row, or none if `item` returns None. Both
    functions get the source and the split; BenchmarkError and QuestionError mark a row as broken."""

    def read(source: Source, split: str) -> BenchmarkRecords:
        records = BenchmarkRecords()
        records.read(rows(source, split), lambda record, where: item(record, source, split))
        return records

    return read


@dataclass(frozen=True)
class BenchmarkSpec(LoadableBenchmark):
    """A benchmark's name, splits, protocols, and the function that reads its files. Raises BenchmarkError for
    an invalid description."""

    name: str
    splits: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    read: Callable[[Source, str], BenchmarkRecords]
    holds: str
    subtitle_folders: tuple[str, ...] = ()
    parsers: Mapping[str, Parser] = field(default_factory=dict)
    """The benchmark's own official answer parsers, by the names in its protocols."""
    training_split: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z][\w.-]*", self.name):
            raise BenchmarkError(f"benchmark {self.name!r}: use only letters, digits and underscores")
        if self.name in _RESERVED:
            raise BenchmarkError(f"benchmark {self.name!r}: the name is taken; choose another")
        for field_name, kind in (("splits", str), ("protocols", Protocol), ("subtitle_folders", str)):
            value = getattr(self, field_name)
            if not isinstance(value, tuple) or not all(isinstance(entry, kind) for entry in value):
                raise BenchmarkError(f"benchmark {self.name!r}: {field_name} must be a tuple, not {value!r}")
        if not self.splits or not self.protocols:
            raise BenchmarkError(f"benchmark {self.name!r}: needs at least one split and one protocol")
        names = [protocol.name for protocol in self.protocols]
        if not all(names) or len(set(names)) < len(names):
            raise BenchmarkError(f"benchmark {self.name!r}: protocols must have distinct names, not {names}")
        parsers = [ROBUST, *self.parsers, *OFFICIAL_EXTRACTORS]
        for protocol in self.protocols:
            try:
                check_protocol(protocol)
            except BenchmarkError as error:
                raise BenchmarkError(
                    f"benchmark {self.name!r}, protocol {protocol.name!r}: {error}"
                ) from None
            if protocol.subtitles not in ("none", "offered") and not self.subtitle_folders:
                raise BenchmarkError(
                    f"benchmark {self.name!r}, protocol {protocol.name!r}: shows subtitles; set their "
                    "folders with subtitle_folders"
                )
            if protocol.parser not in parsers:
                raise BenchmarkError(
                    f"benchmark {self.name!r}, protocol {protocol.name!r}: unknown parser "
                    f"{protocol.parser!r}; {did_you_mean(protocol.parser, parsers)}"
                )

    def protocol(self, name: str, split: str = "") -> Protocol:
        """The protocol with this name; if the name is empty, the one with the split's name, or else the
        first. Raises BenchmarkError."""
        protocols = {protocol.name: protocol for protocol in self.protocols}
        if not name:
            return protocols.get(split, self.protocols[0])
        if name not in protocols:
            raise BenchmarkError(
                f"{self.name}: has no protocol {name!r}; {did_you_mean(name, list(protocols))}"
            )
        return protocols[name]

    def load(self, root: Path | None, split: str, given: LoadOptions) -> Benchmark:
        self._refuse(given, "world_seed")
        split = split or self.splits[0]
        if split not in self.splits:
            raise BenchmarkError(f"{self.name}: has no split {split!r}; {did_you_mean(split, self.splits)}")
        chosen, annotations = self.protocol(given.protocol, split), given.annotations
        if root is None:
            raise BenchmarkError(f"{self.name}: needs --root, the folder that contains {self.holds}")
        # The annotation file itself was given as --root.
        if root.is_file():
            root, annotations = root.parent, annotations or str(root)
        source = Source(self.name, root, annotations)
        records = self.read(source, split)
        if chosen.shown == "clues":
            _leave_out_without_clue(records, chosen)
        if records.broken and not records.items:
            raise BenchmarkError(
                f"{self.name}: none of the {len(records.broken)} records is a question of this benchmark; "
                f"check that it is the right file. The first record: {records.broken[0]}"
            )
        if records.broken and not given.skip_broken:
            count = len(records.broken)
            issues = first_of([str(issue) for issue in records.broken], between="\n  ")
            raise BenchmarkError(
                f"{self.name}, split {split!r}: {count} record{'s are' if count > 1 else ' is'} broken:\n  "
                f"{issues}\nfix them, or pass --skip-broken to use the other {len(records.items)} questions"
            )
        # One video's missing subtitles are that question's error; none at all is a wrong folder.
        if not any(item.subtitles is not None for item in records.items):
            self._check_subtitles(chosen, source)
        return Benchmark(
            self.name,
            split,
            [_under(item, chosen) for item in records.items],
            chosen,
            broken=tuple(records.broken),
            defects=tuple(records.defects),
        )

    def _check_subtitles(self, protocol: Protocol, source: Source) -> None:
        if protocol.subtitles in ("none", "offered"):
            return
        if not self.subtitle_folders or source.files.folder(*self.subtitle_folders) is None:
            without = [
                candidate.name for candidate in self.protocols if candidate.subtitles in ("none", "offered")
            ]
            where = " or ".join(str(source.root / folder) for folder in self.subtitle_folders)
            raise BenchmarkError(
                f"{self.name}: protocol {protocol.name!r} needs subtitles, but {where} does not exist; put "
                f"them there, or set --protocol {' or '.join(without)}"
            )


def _leave_out_without_clue(records: BenchmarkRecords, protocol: Protocol) -> None:
    """Mark questions without a clue as broken, because the whole video would be shown otherwise."""
    for item in records.items:
        if not item.evidence:
            problem = f"has no clue intervals, but protocol {protocol.name!r} shows only those"
            records.broken.append(Issue(f"question {item.id!r}", problem, "use another --protocol"))
    records.items = [item for item in records.items if item.evidence]


def _under(item: Item, protocol: Protocol) -> Item:
    """The item with only what the protocol shows and asks for."""
    if protocol.subtitles == "none":
        item = replace(item, subtitles=None)
    if protocol.shown == "clues":
        item = replace(item, shown=item.evidence)
    if protocol.asks == "open" and not item.question.is_open:
        return replace(item, question=Question.open(item.question.text), answer=None)
    if not item.question.is_open:
        item = replace(item, reference=None)
    if protocol.reply == "intervals":
        # The reply names no letter that could be right.
        item = replace(item, answer=None)
    return item


# ---- all of them ----------------------------------------------------------------------------------------

OFFICIAL = (
    "longvideobench",
    "videomme",
    "lvbench",
    "mlvu",
    "cg_bench",
    "nextqa",
    "egoschema",
    "mmbench_video",
)
"""Benchmarks of the paper and its comparisons, each with its own module."""
CONTRIBUTED = tuple(sorted(path.stem for path in (Path(__file__).parent / "contributed").glob("[a-z]*.py")))
"""The names of the benchmarks in `contributed/`: their file names."""

BENCHMARKS: Registry[LoadableBenchmark] = Registry(
    "benchmark",
    lambda value: isinstance(value, LoadableBenchmark),
    {
        **{name: f"videopro.benchmarks.{name}:SPEC" for name in OFFICIAL},
        **{name: f"videopro.benchmarks.contributed.{name}:BENCHMARK" for name in CONTRIBUTED},
        "jsonl": "videopro.benchmarks.jsonl:JSONL",
    },
    what="a BenchmarkSpec; assign one to BENCHMARK (docs/extend.md#a-benchmark)",
    error=BenchmarkError,
    more_names=("videopro",),
)


@dataclass(frozen=True)
class OwnParser:
    """A benchmark's own answer parser. Not the function itself, because other processes cannot unpickle a
    function of a file that is not a module. They load the file at first use."""

    address: str
    version: str
    name: str

    def __call__(self, reply: str, question: Question) -> Reading:
        """See `videopro.question.Parser`. Raises BenchmarkError with the file and the line."""
        plugin = BENCHMARKS.find(self.address)
        # A worker that starts late would read the changed file, and score half of the run by it.
        if plugin.version != self.version:
            raise BenchmarkError(
                f"{self.address}: has changed since the run started; undo the change, or set another --output"
            )
        assert isinstance(plugin.value, BenchmarkSpec)
        with plugin.located(BenchmarkError):
            reading = plugin.value.parsers[self.name](reply, question)
        if not (reading is None or isinstance(reading, str) or _are_intervals(reading)):
            raise BenchmarkError(
                f"{plugin.file or self.address}: parser {self.name!r} returns {reading!r}; it must return a "
                "letter, a list of (start, end) in seconds, or None"
            )
        return reading


def _are_intervals(reading: object) -> bool:
    return isinstance(reading, Sequence) and all(
        isinstance(pair, Sequence) and len(pair) == 2 and all(map(is_time, pair)) for pair in reading
    )
