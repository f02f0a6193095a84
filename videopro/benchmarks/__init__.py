"""Benchmarks by name: `load("lvbench", root=...)`. Each benchmark has its own module, or is your own file,
which imports what it needs from here (docs/extend.md#a-benchmark)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from videopro.benchmarks.archives import Archive, packed, unpack
from videopro.benchmarks.base import SUBTITLE_TRACK_HELP, Benchmark, Issue, Item
from videopro.benchmarks.cg_bench import FILES as CG_BENCH_FILES
from videopro.benchmarks.citations import Citations, citations
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
from videopro.benchmarks.hub import MANIFESTS, Repository, SplitSize, manifest, model_repositories
from videopro.benchmarks.jsonl import load_folder
from videopro.benchmarks.metrics import (
    JudgeGrade,
    compute_metrics,
    interval_iou,
    share_at_iou,
    unread_share,
    written_iou,
)
from videopro.benchmarks.protocol import ROBUST, AnswerPrompt, JudgePrompt, Metric, Protocol
from videopro.benchmarks.record_files import downloaded, read_records
from videopro.benchmarks.registry import (
    BENCHMARKS,
    OFFICIAL,
    BenchmarkSpec,
    LoadableBenchmark,
    LoadOptions,
    OwnParser,
    each_row,
)
from videopro.benchmarks.sources import Source
from videopro.benchmarks.video_files import VideoFiles
from videopro.errors import BenchmarkError
from videopro.question import LETTERS, NO_OPTION, Question
from videopro.traces import SetMember
from videopro.traces.scoring import GROUP_SEPARATOR

__all__ = [
    "Citations",
    "citations",
    "downloaded",
    "AnswerPrompt",
    "Archive",
    "BENCHMARKS",
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
    "MANIFESTS",
    "Metric",
    "NO_OPTION",
    "PRESETS",
    "OFFICIAL",
    "Protocol",
    "Question",
    "ROBUST",
    "Repository",
    "SUBTITLE_TRACK_HELP",
    "SetMember",
    "Source",
    "SplitSize",
    "VideoFiles",
    "compute_metrics",
    "each_row",
    "file_name",
    "index",
    "interval",
    "interval_iou",
    "known_groups",
    "LoadOptions",
    "LoadableBenchmark",
    "load",
    "load_folder",
    "manifest",
    "model_repositories",
    "number",
    "packed",
    "read_records",
    "share_at_iou",
    "split_options",
    "text",
    "texts",
    "unpack",
    "unread_share",
    "without_labels",
    "written_iou",
]

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
    """Load the benchmark `name`, or the benchmark that the file `name` describes.

    `root` is its folder, or `hf:REPO` on the hub; `world_seed` is for a benchmark that generates its videos.
    `protocol` names one of the benchmark's protocols; empty: the default. `annotations` is the file with the
    records, or `hf:REPO:CONFIG:SPLIT`, if it is not the official file in `root`. `skip_broken` skips broken
    records instead of raising. Raises BenchmarkError for an unknown name, a missing folder or broken
    annotations."""
    if name in PRESETS:
        parts = ", ".join(part for part, _, _ in PRESETS[name][0])
        raise BenchmarkError(f"{name}: is a set of benchmarks ({parts}); pass one of them")
    plugin = BENCHMARKS.find(name)
    if root is not None:
        check_is_file(str(root), f"{name}: --root")
        root = downloaded(root, name)
    with plugin.located(BenchmarkError):
        given = LoadOptions(protocol, annotations, skip_broken, world_seed)
        benchmark = plugin.value.load(root, split, given)
    reader = benchmark.protocol.parser
    if isinstance(plugin.value, BenchmarkSpec) and reader in plugin.value.parsers:
        benchmark = replace(benchmark, parser=OwnParser(plugin.address, plugin.version, reader))
    return replace(benchmark, version=" ".join(filter(None, (benchmark.version, plugin.version))))
