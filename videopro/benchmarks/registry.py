"""The description that every official benchmark gives of itself, and the loading that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from videopro.benchmarks.base import Benchmark, Item
from videopro.benchmarks.protocol import Protocol
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.settings import did_you_mean

# Number of broken records that a message lists.
_MAX_LISTED = 5


@dataclass(frozen=True)
class BenchmarkSpec:
    """A benchmark's name, splits, protocols, and the function that reads its files."""

    name: str
    splits: tuple[str, ...]
    """The first is the default."""
    protocols: tuple[Protocol, ...]
    """The first is the default."""
    read: Callable[[Source, str], BenchmarkRecords]
    holds: str
    """Description of its folder's contents, for messages."""
    subtitle_folders: tuple[str, ...] = ()

    def protocol(self, name: str) -> Protocol:
        """The protocol of this name; the default one if the name is empty. Raises BenchmarkError."""
        known = {protocol.name: protocol for protocol in self.protocols}
        if not name:
            return self.protocols[0]
        if name not in known:
            raise BenchmarkError(f"{self.name}: has no protocol {name!r}; {did_you_mean(name, list(known))}")
        return known[name]

    def load(
        self, root: Path | None, split: str, *, protocol: str = "", annotations: str = "", skip_broken: bool
    ) -> Benchmark:
        """The questions of a split. Raises BenchmarkError if the folder is not the benchmark's, and for
        broken records unless `skip_broken`."""
        split = split or self.splits[0]
        if split not in self.splits:
            raise BenchmarkError(f"{self.name}: has no split {split!r}; {did_you_mean(split, self.splits)}")
        chosen = self.protocol(protocol)
        if root is None:
            raise BenchmarkError(f"{self.name}: needs --root, the folder that contains {self.holds}")
        if root.is_file():
            root, annotations = root.parent, annotations or str(root)
        source = Source(self.name, root, annotations)
        found = self.read(source, split)
        if found.broken and not found.items:
            raise BenchmarkError(
                f"{self.name}: none of the {len(found.broken)} records is a question of this benchmark; is "
                f"it the right file? The first record: {found.broken[0]}"
            )
        if found.broken and not skip_broken:
            count = len(found.broken)
            listed = "\n  ".join(str(issue) for issue in found.broken[:_MAX_LISTED])
            raise BenchmarkError(
                f"{self.name}, split {split!r}: {count} record{'s are' if count > 1 else ' is'} broken:\n  "
                f"{listed}{f'{chr(10)}  and {count - _MAX_LISTED} more' if count > _MAX_LISTED else ''}\n"
                f"fix them, or use only the other {len(found.items)} questions with --skip-broken"
            )
        self._check_subtitles(chosen, source)
        return Benchmark(
            self.name,
            split,
            [_under(item, chosen) for item in found.items],
            chosen,
            broken=tuple(found.broken),
            defects=tuple(found.defects),
        )

    def _check_subtitles(self, protocol: Protocol, source: Source) -> None:
        if protocol.subtitles in ("none", "offered"):
            return
        if not self.subtitle_folders or source.files.folder(*self.subtitle_folders) is None:
            without = [own.name for own in self.protocols if own.subtitles in ("none", "offered")]
            where = " or ".join(str(source.root / folder) for folder in self.subtitle_folders)
            raise BenchmarkError(
                f"{self.name}: protocol {protocol.name!r} needs subtitles, but {where} does not exist; put "
                f"them there, or use --protocol {' or '.join(without)}"
            )


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


def by_name(*specs: BenchmarkSpec) -> Mapping[str, BenchmarkSpec]:
    """Benchmarks by their names."""
    return {spec.name: spec for spec in specs}
