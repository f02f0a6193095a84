"""Benchmarks by name: `load("pocket", split="test")`. A module a benchmark; this file only finds it."""

from __future__ import annotations

from pathlib import Path

from videopro.benchmarks.base import Benchmark, Item, Protocol
from videopro.benchmarks.cg_bench import load_cg_bench
from videopro.benchmarks.jsonl import load_folder
from videopro.benchmarks.pocket import load_pocket
from videopro.config import near
from videopro.errors import BenchmarkError

__all__ = ["NAMES", "Benchmark", "Item", "Protocol", "load"]

NAMES = ("pocket", "cg_bench", "jsonl")


def load(name: str, *, split: str = "", root: Path | None = None, world_seed: int | None = None) -> Benchmark:
    """The benchmark `name`. `root` is its folder; only `pocket` can do without one, and only pocket's split
    "fresh" takes a `world_seed`.

    Raises BenchmarkError for an unknown name, a missing folder or broken annotations.
    """
    if name == "pocket":
        return load_pocket(split or "test", root, world_seed)
    if world_seed is not None:
        raise BenchmarkError(f"{name}: has no --world-seed; only pocket's split 'fresh' is drawn from one")
    if name == "cg_bench":
        if root is None:
            raise BenchmarkError("cg_bench: needs --root, the folder that holds cgbench.json")
        return load_cg_bench(root, split)
    if name == "jsonl":
        if root is None:
            raise BenchmarkError("jsonl: needs --root, the folder that holds questions.jsonl")
        return load_folder(root, split=split)
    raise BenchmarkError(f"unknown benchmark {name!r}; {near(name, NAMES)}")
