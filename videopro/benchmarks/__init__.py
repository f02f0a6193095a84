"""Benchmarks by name: `load("pocket", split="test")`. Each benchmark has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from videopro.benchmarks import (
    cg_bench,
    egoschema,
    longvideobench,
    lvbench,
    mlvu,
    mmbench_video,
    nextqa,
    videomme,
)
from videopro.benchmarks.base import Benchmark, Item
from videopro.benchmarks.cg_bench import FILES as CG_BENCH_FILES
from videopro.benchmarks.cg_bench import read_records as read_cg_bench
from videopro.benchmarks.fields import check_is_file
from videopro.benchmarks.jsonl import load_folder
from videopro.benchmarks.metrics import JudgeGrade, compute_metrics
from videopro.benchmarks.pocket import load_pocket
from videopro.benchmarks.protocol import ROBUST, JudgePrompt, Protocol
from videopro.benchmarks.registry import BenchmarkSpec, by_name
from videopro.benchmarks.video_files import VideoFiles
from videopro.errors import BenchmarkError
from videopro.settings import did_you_mean

__all__ = [
    "CG_BENCH_FILES",
    "NAMES",
    "PRESETS",
    "ROBUST",
    "SPECS",
    "Benchmark",
    "Item",
    "JudgeGrade",
    "JudgePrompt",
    "Protocol",
    "VideoFiles",
    "compute_metrics",
    "default_split",
    "load",
    "read_cg_bench",
]

SPECS: Mapping[str, BenchmarkSpec] = by_name(
    longvideobench.SPEC,
    videomme.SPEC,
    lvbench.SPEC,
    mlvu.SPEC,
    cg_bench.SPEC,
    nextqa.SPEC,
    egoschema.SPEC,
    mmbench_video.SPEC,
)
NAMES = ("pocket", *SPECS, "jsonl")

# Several benchmarks under one name: (benchmark, split, protocol), and frames per call. "videopro" is what
# the paper reports (section 4; Video-MME's long group, MLVU's test set).
PRESETS: Mapping[str, tuple[tuple[tuple[str, str, str], ...], int]] = {
    "videopro": (
        (
            ("lvbench", "test", "videopro"),
            ("videomme", "long", "videopro"),
            ("longvideobench", "val", "videopro"),
            ("mlvu", "test", "videopro"),
        ),
        64,
    )
}


def default_split(name: str) -> str:
    """The split of a benchmark that is used if none is given."""
    return SPECS[name].splits[0] if name in SPECS else "test"


def load(
    name: str,
    *,
    split: str = "",
    root: Path | None = None,
    world_seed: int | None = None,
    protocol: str = "",
    annotations: str = "",
    skip_broken: bool = False,
) -> Benchmark:
    """Load the benchmark `name`.

    `root` is its folder; only `pocket` needs none, and only pocket's split "fresh" takes a `world_seed`.
    `protocol` names one of the benchmark's protocols; empty: the default one. `annotations` is the file with
    the records, or `hf:REPO:CONFIG:SPLIT`, if it is not the official one in `root`. `skip_broken` leaves out
    broken records instead of raising. Raises BenchmarkError for an unknown name, a missing folder or broken
    annotations.
    """
    if name not in NAMES:
        raise BenchmarkError(f"unknown benchmark {name!r}; {did_you_mean(name, NAMES)}")
    if world_seed is not None and name != "pocket":
        raise BenchmarkError(f"{name}: has no --world-seed; only pocket's split 'fresh' has one")
    if root is not None:
        check_is_file(str(root), f"{name}: --root")
    if name in SPECS:
        return SPECS[name].load(
            root, split, protocol=protocol, annotations=annotations, skip_broken=skip_broken
        )
    for flag, value in (("--protocol", protocol), ("--annotations", annotations)):
        if value:
            raise BenchmarkError(f"{name}: has no {flag}; leave it out")
    if name == "pocket":
        return load_pocket(split or "test", root, world_seed)
    if root is None:
        raise BenchmarkError("jsonl: needs --root, the folder that holds questions.jsonl")
    return load_folder(root, split=split, skip_broken=skip_broken, embedded=True)
