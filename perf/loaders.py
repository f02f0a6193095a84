"""What the benchmarks' loaders make of samples of real annotation files.

    python -m perf.loaders FOLDER [--output perf/loaders.json]

FOLDER has `mlvu/*.json`, `nextqa/val*.csv` and `cg_bench/cgbench_mini*.json`: official files, or the first
records of such, with `_firstN` at the end of their names. Each is read under its official name, as `videopro
benchmarks check NAME --root DIR` does, under every protocol. Recorded are counts, the kinds of what was left
out and of annotation errors, why a protocol was refused, and the files' digests; no text of a record is.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS, Benchmark
from videopro.cli import setting
from videopro.errors import BenchmarkError, ConfigError


@dataclass(frozen=True)
class Case:
    """Files that a loader reads together, or one that is given to it by `--annotations`."""

    title: str
    benchmark: str
    split: str
    pattern: str
    """The files, relative to the folder of samples."""
    place: str = ""
    """The folder below `--root` where the loader looks for them."""
    annotations: bool = False


CASES = (
    Case("MLVU dev", "mlvu", "dev", "mlvu/*.json", place="json"),
    Case("MLVU dev, `9_summary` alone", "mlvu", "dev", "mlvu/9_summary*.json", annotations=True),
    Case("NExT-QA val", "nextqa", "val", "nextqa/val*.csv"),
    Case("CG-Bench mini", "cg_bench", "mini", "cg_bench/cgbench_mini*.json"),
)


@dataclass(frozen=True)
class LoadersSettings:
    """Count what the loaders make of samples of annotation files."""

    folder: Path = field(metadata=setting("folder of the samples", positional=True))
    output: Path = field(default=ROOT / "perf" / "loaders.json", metadata=setting("JSON file for the counts"))


def official_name(file: Path) -> str:
    """A sample's name without what it says of its length: `val_first400.csv` is of `val.csv`."""
    return re.sub(r"_first\d+$", "", file.stem) + file.suffix


def records_of(file: Path) -> int:
    """How many records a file has, counted without the loaders."""
    text = file.read_text(encoding="utf-8")
    return len(list(csv.DictReader(text.splitlines()))) if file.suffix == ".csv" else len(json.loads(text))


def kinds(issues: Iterable[str]) -> dict[str, int]:
    """How often each kind of problem is named: the messages without what they quote of the records."""
    quoted = re.compile(r"""\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
    return dict(sorted(Counter(quoted.sub("", issue.partition(": ")[0]) for issue in issues).items()))


def counted(case: Case, folder: Path) -> dict[str, Any]:
    """What a loader makes of its files under its protocols. Raises ConfigError if the folder has none of
    them, SystemExit if the protocols that it can be read under do not give the same counts."""
    files = sorted(folder.glob(case.pattern))
    if not files:
        raise ConfigError(f"{folder}: has no {case.pattern}; give the folder of the samples")
    refused: dict[str, str] = {}
    read: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        root_of_case = root / case.place
        root_of_case.mkdir(exist_ok=True)
        for file in files:
            (root_of_case / official_name(file)).symlink_to(file.absolute())
        for protocol in (each.name for each in BENCHMARKS[case.benchmark].protocols):
            try:
                benchmark = benchmarks.load(
                    case.benchmark,
                    split=case.split,
                    root=root,
                    protocol=protocol,
                    annotations=str(root_of_case / official_name(files[0])) if case.annotations else "",
                    skip_broken=True,
                )
            except BenchmarkError as error:
                # The first clause says what is wrong; what follows may quote a record.
                refused[protocol] = str(error).partition("; ")[0].replace(f"{root}/", "")
            else:
                read[protocol] = _counts(benchmark)
    different = [counts for counts in read.values() if counts != next(iter(read.values()))]
    if different:
        raise SystemExit(f"{case.title}: not the same under all protocols: {read}")
    return {
        "name": case.title,
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files},
        "records": sum(map(records_of, files)),
        "protocols": list(read),
        "refused": refused,
        **next(iter(read.values()), {"questions": 0, "videos": 0, "left_out": {}, "annotation_errors": {}}),
    }


def _counts(benchmark: Benchmark) -> dict[str, Any]:
    return {
        "questions": len(benchmark.items),
        "videos": len({item.video_key for item in benchmark.items}),
        "left_out": kinds(issue.problem for issue in benchmark.broken),
        "annotation_errors": kinds(issue.problem for issue in benchmark.defects),
    }


def count(settings: LoadersSettings) -> None:
    """Record what the loaders make of every sample."""
    write_record(settings.output, [counted(case, settings.folder) for case in CASES])


if __name__ == "__main__":
    run_command(LoadersSettings, count, "stopped")
