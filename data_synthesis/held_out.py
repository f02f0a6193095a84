"""Questions that are kept for evaluation: those of CG-Bench mini, by their ids and by their texts, and those
about a few videos that a setting sets aside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopro.benchmarks import CG_BENCH_FILES, Item, read_cg_bench
from videopro.data_synthesis.split import drawn
from videopro.errors import BenchmarkError, ConfigError

MINI = "CG-Bench mini"


@dataclass(frozen=True)
class HeldOutQuestions:
    """Questions of a source that are for evaluation."""

    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    """As `comparable` gives them."""


def comparable(text: str) -> str:
    """A question's text without what two copies of it may differ in: case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def mini_questions(folder: Path) -> HeldOutQuestions:
    """The questions of CG-Bench mini, whose annotations are in this folder. Raises ConfigError."""
    path = folder / CG_BENCH_FILES["mini"]
    records = cg_bench_records(path)
    nameless = next((number for number, row in enumerate(records, start=1) if "qid" not in row), None)
    if nameless is not None:
        raise ConfigError(
            f"{path}, record {nameless}: field 'qid' is missing, so which questions are for evaluation is "
            "unknown; give the official file, or --cg-bench-mini training"
        )
    return HeldOutQuestions(
        frozenset(str(row["qid"]) for row in records),
        frozenset(comparable(str(row["question"])) for row in records if row.get("question")),
    )


def cg_bench_records(path: Path) -> list[Any]:
    """The records of an annotation file of CG-Bench. Raises ConfigError."""
    try:
        return list(read_cg_bench(path))
    except BenchmarkError as error:
        raise ConfigError(str(error)) from error


def set_aside(items: Iterable[Item], count: int, seed: int) -> frozenset[str]:
    """The keys of `count` of the videos, drawn by seed. Which are drawn depends on nothing but their keys, so
    that a file in another order sets the same ones aside. Raises ConfigError if that leaves none."""
    videos = {item.video_key for item in items}
    if count >= len(videos):
        raise ConfigError(
            f"held_out_videos is {count}, and the source has {len(videos)} videos; give a smaller number"
        )
    return frozenset(sorted(videos, key=lambda video: drawn(video, f"{seed} held out"))[:count])
