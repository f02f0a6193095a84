"""Reads the records of a benchmark: from a file, or from a dataset on the hub.

The file extension decides how records are read (.json, .jsonl, .csv, .tsv, .parquet); a name `hf:REPO` or
`hf:REPO:CONFIG:SPLIT` is loaded with `datasets`, and `hf:REPO:FILE` is one file of a repository.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from videopro.benchmarks.hub import manifest
from videopro.cli import needs_extra
from videopro.errors import BenchmarkError, reason_of
from videopro.storage import InvalidJson, parse_json, parse_json_list

HUB = "hf:"

# A record's location (file and line or row), and the record.
LocatedRecord: TypeAlias = tuple[str, Mapping[str, Any]]


class UnreadableRecord(dict[str, Any]):
    """Placeholder for a record that cannot be read; `problem` says what is wrong and how to fix it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__()
        self.problem = (problem, fix)


def read_records(path: Path, name: str) -> Iterator[LocatedRecord]:
    """The records of a file, each with its location. Raises BenchmarkError if the file cannot be read; a
    single broken record comes as `UnreadableRecord`."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise BenchmarkError(f"{name}: {path} has an unsupported file type; pass a {_ENDINGS} file")
    try:
        yield from reader(path, name)
    except FileNotFoundError as error:
        raise BenchmarkError(f"{name}: {path} does not exist; check --root and --annotations") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(
            f"{name}: {path} cannot be read ({reason_of(error)}); download it again"
        ) from error


def _json(path: Path, name: str) -> Iterator[LocatedRecord]:
    try:
        content = _json_list(path.read_text(encoding="utf-8"))
    except InvalidJson as error:
        raise BenchmarkError(
            f"{name}: {path} cannot be read: invalid JSON ({error}); it may be truncated; download it again"
        ) from error
    if not isinstance(content, list):
        raise BenchmarkError(
            f"{name}: {path} must contain a list of objects, not a {type(content).__name__}; check "
            "that it is the annotation file"
        )
    for number, record in enumerate(content, start=1):
        yield f"{path}, record {number}", _checked(record)


def _json_list(text: str) -> Any:
    try:
        return parse_json(text)
    except InvalidJson:
        # Commas before a closing bracket, as in Video-MME's own template.
        return parse_json_list(_TRAILING_COMMA.sub(lambda match: match[1] or "", text))


_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*[\]}])', re.DOTALL)


def _jsonl(path: Path, name: str) -> Iterator[LocatedRecord]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                record = parse_json(line)
            except InvalidJson as error:
                record = error
            yield f"{path}, line {number}", _checked(record)


def _table(path: Path, name: str) -> Iterator[LocatedRecord]:
    # The module refuses fields of more than 128 KiB, which some tables' lists have.
    csv.field_size_limit(sys.maxsize)
    # Spreadsheets write a byte order mark, which would be part of the first column's name.
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            raise BenchmarkError(f"{name}: {path} has two columns with the same name; download it again")
        try:
            for record in reader:
                # A row may span several lines; this is its last one.
                where = f"{path}, line {reader.line_num}"
                # csv gives None for columns that a row lacks, and collects further ones under None.
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


_READERS: Mapping[str, Callable[[Path, str], Iterator[LocatedRecord]]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _parquet,
}
_ENDINGS = f"{', '.join(list(_READERS)[:-1])} or {list(_READERS)[-1]}"


def hub_records(spec: str, default: Sequence[str], name: str) -> Iterator[LocatedRecord]:
    """Records of `REPO`, `REPO:CONFIG` or `REPO:CONFIG:SPLIT` with `datasets`, or of `REPO:FILE` (offline:
    from the cache)."""
    repo, _, file = spec.partition(":")
    if Path(file).suffix.lower() in _READERS:
        fix = "cannot be downloaded", "check the names, or download it and pass the file with --annotations"
        with _asking_hub(name, spec, *fix):
            import huggingface_hub

            path = huggingface_hub.hf_hub_download(repo, file, repo_type="dataset")
        yield from read_records(Path(path), name)
        return
    repo, *named = spec.split(":")
    config, split = [*named, *default[len(named) :], "", ""][:2]
    fix = "cannot be loaded with datasets", f"write {HUB}REPO:CONFIG:SPLIT, or download it and set --root"
    with _asking_hub(name, spec, *fix):
        import datasets

        rows = datasets.load_dataset(repo, config or None, split=split or "test")
    for number, record in enumerate(rows, start=1):
        yield f"{HUB}{spec}, row {number}", record


def downloaded(root: Path, name: str) -> Path:
    """The folder of a benchmark: `root`, or for `hf:REPO` a snapshot of that hub dataset, which is downloaded
    unless it is cached; of those in the benchmark's manifest, the files that are needed. Raises
    BenchmarkError."""
    if not str(root).startswith(HUB):
        return root
    repo = str(root).removeprefix(HUB)
    with _asking_hub(name, repo, "cannot be downloaded", "check the name, or set --root to a folder"):
        import huggingface_hub

        known = [each for each in manifest(name).repositories if each.name == repo]
        needed = [files.pattern for each in known for files in each.needed] or None
        return Path(huggingface_hub.snapshot_download(repo, repo_type="dataset", allow_patterns=needed))


@contextmanager
def _asking_hub(name: str, spec: str, problem: str, fix: str) -> Iterator[None]:
    """Raise BenchmarkError for what is missing on the hub, and without a network: the errors of its libraries
    derive from OSError and ValueError."""
    with needs_extra("benchmarks", f"{name}: {HUB}{spec}"):
        try:
            yield
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"{name}: {HUB}{spec} {problem} ({error}); {fix}") from error


def _checked(record: Any) -> Mapping[str, Any]:
    if isinstance(record, dict):
        return record
    if isinstance(record, InvalidJson):
        return UnreadableRecord(f"is not valid JSON ({record})", "download the file again, or fix the record")
    return UnreadableRecord(f"is a {type(record).__name__}, not an object", "download the file again")
