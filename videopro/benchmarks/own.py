"""Benchmarks that are a file: one's own (`--benchmark path/to/file.py`), those in `contributed/`, and those
of installed packages, by an entry point in the group `videopro.benchmarks`.

The file assigns a `BenchmarkSpec` to BENCHMARK. It is run as Python, like any script. The content of a file
that is not part of this package is part of a run's key: a changed file cannot resume a run.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import metadata
from pathlib import Path

from videopro.benchmarks.base import Benchmark
from videopro.benchmarks.fields import is_time
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.errors import BenchmarkError, VideoProError
from videopro.question import Question, Reading

VARIABLE = "BENCHMARK"
ENTRY_POINTS = "videopro.benchmarks"
_CONTRIBUTED = Path(__file__).parent / "contributed"


@dataclass(frozen=True, kw_only=True)
class OwnBenchmarkSpec(BenchmarkSpec):
    """A benchmark that a file describes."""

    file: Path
    version: str
    """Hash of the file's content; empty for a file of this package."""
    address: str
    """With which `find_external` finds it, in other processes too."""

    def load(
        self, root: Path | None, split: str, *, protocol: str = "", annotations: str = "", skip_broken: bool
    ) -> Benchmark:
        """See `BenchmarkSpec.load`. An error of the file's code becomes a BenchmarkError with its line."""
        with located(self.file):
            benchmark = super().load(
                root, split, protocol=protocol, annotations=annotations, skip_broken=skip_broken
            )
        name = benchmark.protocol.parser
        # Not the function itself: other processes cannot unpickle a function of a file that is no module.
        parser = OwnParser(self.address, self.version, name) if name in self.parsers else None
        return replace(benchmark, version=self.version, parser=parser)


@dataclass(frozen=True)
class OwnParser:
    """An answer parser of a benchmark's file. Other processes load the file when they first use it."""

    address: str
    version: str
    name: str

    def __call__(self, reply: str, question: Question) -> Reading:
        """See `videopro.question.Parser`. Raises BenchmarkError with the file and the line."""
        # A file of this package has no version. Others of its name were looked for when it was loaded.
        spec = find_external(self.address) if self.version else _of_package(self.address)
        # A worker that starts late would read the changed file, and score half of the run by it.
        if spec is None or spec.version != self.version:
            raise BenchmarkError(
                f"{self.address}: has changed since the run started; undo the change, or run into another "
                "--output"
            )
        with located(spec.file):
            reading = spec.parsers[self.name](reply, question)
        if not (reading is None or isinstance(reading, str) or _are_intervals(reading)):
            raise BenchmarkError(
                f"{spec.file}: parser {self.name!r} returns {reading!r}; it must return a letter, a list of "
                "(start, end) in seconds, or None"
            )
        return reading


def _are_intervals(reading: object) -> bool:
    return isinstance(reading, Sequence) and all(
        isinstance(pair, Sequence) and len(pair) == 2 and all(map(is_time, pair)) for pair in reading
    )


def contributed() -> tuple[str, ...]:
    """The names of the benchmarks in `contributed/`."""
    return tuple(sorted(path.stem for path in _CONTRIBUTED.glob("*.py") if path.stem != "__init__"))


def installed() -> tuple[str, ...]:
    """The names of the benchmarks of installed packages."""
    return tuple(sorted(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS)))


def is_file(name: str) -> bool:
    """Whether a benchmark is named by its file."""
    return name.endswith(".py") or "/" in name


def find_external(name: str) -> OwnBenchmarkSpec | None:
    """The benchmark of a file, or of a name in `contributed` or `installed`; None for another name. Raises
    BenchmarkError for a file that is missing or describes no benchmark, with the line."""
    if is_file(name):
        return _of_file(Path(name).absolute(), is_ours=False, spelling=name)
    if name in contributed():
        check_unique(name)
        return _of_package(name)
    entries = _entries(name)
    if len(entries) > 1:
        raise _ambiguous(name, entries)
    return _named(_of_entry(entries[0]), name) if entries else None


def _of_package(name: str) -> OwnBenchmarkSpec:
    return _named(_of_file(_CONTRIBUTED / f"{name}.py", is_ours=True), name)


def check_unique(name: str) -> None:
    """Raise BenchmarkError if an installed package has a benchmark with a name of ours."""
    if entries := _entries(name):
        raise _ambiguous(name, entries, "videopro")


def _entries(name: str) -> list[metadata.EntryPoint]:
    return [entry for entry in metadata.entry_points(group=ENTRY_POINTS) if entry.name == name]


def _ambiguous(name: str, entries: Sequence[metadata.EntryPoint], *more_owners: str) -> BenchmarkError:
    owners = ", ".join((*map(_owner, entries), *more_owners))
    return BenchmarkError(
        f"benchmark {name!r} is in several packages ({owners}); remove one, or give its file"
    )


def _owner(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _named(spec: OwnBenchmarkSpec, name: str) -> OwnBenchmarkSpec:
    if spec.name != name:
        raise BenchmarkError(
            f"{spec.file}: {VARIABLE}.name is {spec.name!r}, but the benchmark is found as {name!r}; give it "
            "this name"
        )
    return replace(spec, address=name)


def _of_entry(entry: metadata.EntryPoint) -> OwnBenchmarkSpec:
    where = f"benchmark {entry.name!r} of package {_owner(entry)}"
    try:
        loaded = entry.load()
        module = sys.modules[entry.module]
    except Exception as error:
        raise BenchmarkError(
            f"{where}: {entry.value} cannot be loaded ({type(error).__name__}: {error}); correct the package"
        ) from error
    spec = getattr(loaded, VARIABLE, loaded)
    file = Path(module.__file__ or "")
    if not isinstance(spec, BenchmarkSpec) or not file.is_file():
        raise BenchmarkError(
            f"{where}: {entry.value} is not a BenchmarkSpec in a file; let the entry point name one"
        )
    return _external(spec, file, _hash(file.read_bytes()))


def _of_file(path: Path, *, is_ours: bool, spelling: str = "") -> OwnBenchmarkSpec:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BenchmarkError(
            f"benchmark {spelling!r}: {path} cannot be read ({error.strerror}); give the .py file that "
            "describes the benchmark"
        ) from error
    return _run(path, content, is_ours)


@cache
def _run(path: Path, content: bytes, is_ours: bool) -> OwnBenchmarkSpec:
    """Run a file with this content, once in a process."""
    digest = _hash(content)
    # A name with the content's hash: two versions of one file in a process must not replace each other.
    module = types.ModuleType(f"videopro_benchmark_{path.stem}_{digest}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    # SystemExit too: a file that ends the process must not end the command without a word.
    except (Exception, SystemExit) as error:
        raise BenchmarkError(_fault(error, path)) from error
    spec = getattr(module, VARIABLE, None)
    if not isinstance(spec, BenchmarkSpec):
        problem = "defines no" if spec is None else f"{VARIABLE} is a {type(spec).__name__}, not a"
        raise BenchmarkError(
            f"{path}: {problem} BenchmarkSpec; assign one to {VARIABLE} (docs/own-benchmarks.md)"
        )
    return _external(spec, path, "" if is_ours else digest)


def _external(spec: BenchmarkSpec, file: Path, version: str) -> OwnBenchmarkSpec:
    values = {entry.name: getattr(spec, entry.name) for entry in fields(BenchmarkSpec)}
    return OwnBenchmarkSpec(**values, file=file, version=version, address=str(file))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def located(file: Path) -> Iterator[None]:
    """Turn an error of the code in `file` into a BenchmarkError that names the line. VideoPro's own errors
    pass: they name what is wrong."""
    try:
        yield
    except VideoProError:
        raise
    except Exception as error:
        raise BenchmarkError(_fault(error, file)) from error


def _fault(error: BaseException, file: Path) -> str:
    """What is wrong, with the line of the file, and the record that was read."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}, line {error.lineno}: {error.msg}; correct the file"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file) and frame.lineno is not None
    ]
    where = f"{file}, line {lines[-1]}" if lines else str(file)
    if isinstance(error, VideoProError):
        return f"{where}: {error}"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{where}: {type(error).__name__}: {error}{notes}; correct the file"
