"""What the hub publishes of a benchmark or a model, as data: manifest/NAME.yaml, one file each.

Plan, download, checks, unpacking, the loaders' names of files, the documentation's tables and the miniature
read it. Each fact names its source, the day it was read, and whether it was seen in the hub's own listing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import product
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Literal

from pydantic import TypeAdapter

from videopro.cli import read_yaml

MANIFESTS = Path(__file__).parent / "manifest"
_RANGE = re.compile(r"\{(\w+)\.\.(\w+)\}")


@dataclass(frozen=True)
class Gate:
    """What the hub asks for before it gives a repository's files."""

    asks: str
    source: str
    verified: bool = False


@dataclass(frozen=True)
class Files:
    """A file of a repository, or all with a pattern."""

    name: str
    """Its path. {a..h} stands for these pieces, * for a number that is not known."""
    holds: Literal["questions", "answers", "videos", "subtitles", "weights", "other"]
    """other: nothing that is asked for; it is not downloaded."""
    source: str
    verified: bool = False
    bytes: float = 0.0
    """Of all together; 0 if unknown, as of files too small to matter."""
    splits: tuple[str, ...] = ()
    """The splits that it is of; empty: all of the repository's."""
    sha256: str = ""

    @property
    def is_packed(self) -> bool:
        """Whether it is one archive or several."""
        return re.search(r"\.(?:zip|tgz|tar)(?:\.|$)", self.name) is not None

    @property
    def pattern(self) -> str:
        """The name as a pattern of the shell, with `*` for its pieces."""
        return _RANGE.sub("*", self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of its pieces in their order; the pattern if their number is unknown."""
        if not (match := _RANGE.search(self.name)):
            return (self.name,)
        first, last = match.groups()
        words = map("".join, product(digits if first.isdecimal() else ascii_lowercase, repeat=len(first)))
        return tuple(self.name.replace(match[0], word) for word in words if first <= word <= last)


@dataclass(frozen=True)
class Repository:
    """A repository of the hub, with those of its files that are needed."""

    name: str
    files: tuple[Files, ...]
    kind: Literal["dataset", "model"] = "dataset"
    gate: Gate | None = None
    revision: str = ""
    splits: tuple[str, ...] = ()
    """The splits that it has; empty: all."""

    @property
    def needed(self) -> list[Files]:
        """The files to download. Questions of other splits are among them: some of them must not be trained
        on."""
        return [each for each in self.files if each.holds != "other"]

    @property
    def bytes(self) -> float:
        """What these take, as far as it is known."""
        return sum(each.bytes for each in self.needed)


@dataclass(frozen=True)
class SplitSize:
    """The published size of a split."""

    questions: int
    videos: int
    hours: float
    """Of video: videos times their mean length."""
    source: str = ""


@dataclass(frozen=True)
class Source:
    """The source of facts."""

    of: str
    read: date


@dataclass(frozen=True)
class Manifest:
    """What the hub has of a benchmark or a model."""

    repositories: tuple[Repository, ...] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    sizes: Mapping[str, SplitSize] = field(default_factory=dict)
    """By split."""
    rows: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For `datasets`: configuration and split of the rows of a split."""

    def of(self, split: str) -> list[Repository]:
        """The repositories that a split needs."""
        return [each for each in self.repositories if not each.splits or split in each.splits]

    def paths(self, split: str, holds: str) -> tuple[str, ...]:
        """The paths of a split's questions, answers, videos or subtitles, as in `Files.names`."""
        files = [each for repository in self.of(split) for each in repository.files if each.holds == holds]
        return tuple(path for each in files if not each.splits or split in each.splits for path in each.names)


_MANIFEST = TypeAdapter(Manifest)


@cache
def manifest(name: str) -> Manifest:
    """What the hub has of a benchmark, or of a model by its file's name; empty if it is not listed."""
    path = MANIFESTS / f"{name}.yaml"
    return _MANIFEST.validate_python(read_yaml(path)) if path.exists() else Manifest()


def model_repositories() -> dict[str, Repository]:
    """The repositories of models by their hub names."""
    found = [each for path in sorted(MANIFESTS.glob("*.yaml")) for each in manifest(path.stem).repositories]
    return {each.name: each for each in found if each.kind == "model"}
