"""What training runs have in common before their first step and after the last: videos decoded, rows that are
left out named, adapters stored small.

Knows files and videos; must not know trainers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from rich.progress import Progress
from safetensors.torch import load_file, save_file

from train.frame_cache import FrameCache
from train.sft_data import Shows


def decode(cache: FrameCache, rows: Sequence[Shows], workers: int, state: PartialState) -> dict[Path, str]:
    """Have every video decoded, each rank its share; why those that cannot be read cannot, on every rank."""
    videos = list(dict.fromkeys(row.video for row in rows if row.video is not None))
    mine = videos[state.process_index :: state.num_processes]
    with Progress(disable=not (state.is_main_process and sys.stderr.isatty())) as progress:
        task = progress.add_task("videos", total=len(mine))
        failed = cache.prepare(mine, workers=workers, told=lambda: progress.advance(task))
    merged: dict[Path, str] = {}
    for one in gather_object([failed]):
        merged.update(one)
    return merged


def name_dropped(dropped: Sequence[Shows], failures: Mapping[Path, str]) -> None:
    """Say which rows are left out, and why."""
    if dropped:
        print(f"{len(dropped)} rows are dropped: their videos cannot be read", file=sys.stderr)
    for path, why in failures.items():
        ids = [row.id for row in dropped if row.video == path]
        print(f"  {why} (rows {', '.join(ids)})", file=sys.stderr)


def in_bfloat16(file: Path) -> None:
    """Halve an adapter's file."""
    weights: dict[str, Any] = {name: one.to(torch.bfloat16) for name, one in load_file(file).items()}
    part = file.with_suffix(".part")
    save_file(weights, part, metadata={"format": "pt"})
    part.replace(file)
