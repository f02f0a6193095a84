"""Benchmarks by name: `load("pocket", split="test")`. Each benchmark has a module of its own, or is a file of
one's own, which imports from here what it needs (docs/own-benchmarks.md)."""

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
from videopro.benchmarks.archives import UNPACKING, Archive, packed
from videopro.benchmarks.base import SUBTITLE_TRACK_HELP, Benchmark, Issue, Item
from videopro.benchmarks.cg_bench import FILES as CG_BENCH_FILES
from videopro.benchmarks.cg_bench import read_records as read_cg_bench
from videopro.benchmarks.fields import (
    check_is_file,
    file_name,
    index,
    interval,
    known_groups,
    number,
    split_options,
    text,
    texts,
    without_labels,
)
from videopro.benchmarks.jsonl import load_folder
from videopro.benchmarks.metrics import JudgeGrade, compute_metrics, share_at_iou, unread_share, written_iou
from videopro.benchmarks.own import check_unique, contributed, find_external, installed, is_file
from videopro.benchmarks.pocket import load_pocket, pocket_videos
from videopro.benchmarks.protocol import ROBUST, AnswerPrompt, JudgePrompt, Metric, Protocol
from videopro.benchmarks.record_files import downloaded
from videopro.benchmarks.registry import BenchmarkSpec, by_name, each_row
from videopro.benchmarks.sources import Source
from videopro.benchmarks.video_files import VideoFiles
from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError
from videopro.question import LETTERS, NO_OPTION, Question
from videopro.traces import SetMember
from videopro.traces.scoring import GROUP_SEPARATOR

__all__ = [
    "pocket_videos",
    "downloaded",
    "AnswerPrompt",
    "Archive",
    "Benchmark",
    "BenchmarkError",
    "BenchmarkSpec",
    "CG_BENCH_FILES",
    "GROUP_SEPARATOR",
    "Issue",
    "Item",
    "JudgeGrade",
    "JudgePrompt",
    "LETTERS",
    "Metric",
    "NAMES",
    "NO_OPTION",
    "PRESETS",
    "Protocol",
    "Question",
    "ROBUST",
    "SPECS",
    "SUBTITLE_TRACK_HELP",
    "UNPACKING",
    "SetMember",
    "Source",
    "VideoFiles",
    "compute_metrics",
    "default_split",
    "each_row",
    "file_name",
    "find",
    "index",
    "installed",
    "interval",
    "known_groups",
    "load",
    "name_of",
    "number",
    "packed",
    "read_cg_bench",
    "share_at_iou",
    "split_options",
    "text",
    "texts",
    "unread_share",
    "without_labels",
    "written_iou",
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
NAMES = ("pocket", *SPECS, *contributed(), "jsonl")

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


def find(name: str) -> BenchmarkSpec | None:
    """The benchmark of a name or of a file of one's own; None for `pocket`, `jsonl` and unknown names. Raises
    BenchmarkError for a file that describes no benchmark."""
    if name in SPECS:
        check_unique(name)
        return SPECS[name]
    return find_external(name)


def name_of(name: str) -> str:
    """The name of a benchmark that is given by its name or by its file. Raises BenchmarkError."""
    spec = find(name) if is_file(name) else None
    return spec.name if spec is not None else name


def default_split(name: str) -> str:
    """The split of a benchmark that is used if none is given. Raises BenchmarkError."""
    spec = find(name)
    return spec.splits[0] if spec is not None else "test"


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
    """Load the benchmark `name`, or the one that the file `name` describes.

    `root` is its folder, or `hf:REPO` on the hub; only `pocket` needs none, and only pocket's split "fresh"
    takes a `world_seed`. `protocol` names one of the benchmark's protocols; empty: the default one.
    `annotations` is the file with the records, or `hf:REPO:CONFIG:SPLIT`, if it is not the official one in
    `root`. `skip_broken` leaves out broken records instead of raising. Raises BenchmarkError for an unknown
    name, a missing folder or broken annotations.
    """
    spec = find(name)
    if name in PRESETS:
        parts = ", ".join(part for part, _, _ in PRESETS[name][0])
        raise BenchmarkError(f"{name}: is a set of benchmarks ({parts}); give one of them")
    if spec is None and name not in NAMES:
        names = (*NAMES, *installed())
        raise BenchmarkError(
            f"unknown benchmark {name!r}; {did_you_mean(name, names)} (a file of your own ends in .py)"
        )
    if world_seed is not None and name != "pocket":
        raise BenchmarkError(f"{name}: has no --world-seed; only pocket's split 'fresh' has one")
    if root is not None:
        check_is_file(str(root), f"{name}: --root")
        root = downloaded(root, name)
    if spec is not None:
        return spec.load(root, split, protocol=protocol, annotations=annotations, skip_broken=skip_broken)
    for flag, value in (("--protocol", protocol), ("--annotations", annotations)):
        if value:
            raise BenchmarkError(f"{name}: has no {flag}; leave it out")
    if name == "pocket":
        return load_pocket(split or "test", root, world_seed)
    if root is None:
        raise BenchmarkError("jsonl: needs --root, the folder that holds questions.jsonl")
    return load_folder(root, split=split, skip_broken=skip_broken, embedded=True)
