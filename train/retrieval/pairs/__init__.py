"""Caption-video pairs for training retrievers: LongVR's five sources (LVAgent, Table 8) and the pocket
world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from videopro.cli import did_you_mean
from videopro.errors import ConfigError, DatasetError
from videopro.train.retrieval.pairs.activitynet import load_activitynet
from videopro.train.retrieval.pairs.caption_pairs import CaptionPair, CaptionPairs, Units
from videopro.train.retrieval.pairs.moviechat import load_moviechat
from videopro.train.retrieval.pairs.openvid import load_openvid
from videopro.train.retrieval.pairs.pocket import load_pocket
from videopro.train.retrieval.pairs.vitt import load_vitt
from videopro.train.retrieval.pairs.youcook2 import load_youcook2

__all__ = ["LONGVR", "SOURCES", "CaptionPair", "CaptionPairs", "Units", "load_pairs"]

LONGVR: Mapping[str, Callable[[Path, Units], CaptionPairs]] = {
    "activitynet": load_activitynet,
    "openvid": load_openvid,
    "vitt": load_vitt,
    "moviechat": load_moviechat,
    "youcook2": load_youcook2,
}
SOURCES = {**LONGVR, "pocket": load_pocket}
_MAX_EXAMPLES = 5


def load_pairs(
    folders: Mapping[str, Path], units: Units, *, limits: Mapping[str, int], seed: int, skip_broken: bool
) -> list[CaptionPair]:
    """The pairs of all sources; prints how many each has, and what was left out.

    `folders`: from a source's name to its folder. `limits`: from a source's name to the number of its pairs
    to draw with `seed`. Raises ConfigError for an unknown source, DatasetError for a source without pairs
    and, unless `skip_broken`, for broken records."""
    for name in (*folders, *limits):
        if name not in SOURCES:
            raise ConfigError(f"source {name!r} is not known; {did_you_mean(name, list(SOURCES))}")
    pairs: list[CaptionPair] = []
    for name, folder in folders.items():
        if not folder.is_dir():
            raise DatasetError(f"{name}: folder {folder} does not exist; give the folder of its annotations")
        source = SOURCES[name](folder, units)
        print(_report(name, source), flush=True)
        if source.broken and not skip_broken:
            raise DatasetError(
                f"{name}: {len(source.broken)} broken records: {_some(source.broken)}; fix them, or leave "
                "them out with --skip-broken"
            )
        if not source.pairs:
            raise DatasetError(
                f"{name}: {folder} has no pair whose video is there: {_some([*source.missing])}"
            )
        drawn = source.pairs
        if name in limits and limits[name] < len(drawn):
            chosen = np.random.default_rng([seed, len(drawn)]).choice(len(drawn), limits[name], replace=False)
            drawn = [drawn[int(i)] for i in sorted(chosen)]
        pairs += drawn
    return pairs


def _report(name: str, source: CaptionPairs) -> str:
    lines = [f"{name}: {len(source.pairs):,} pairs"]
    if source.broken:
        lines.append(f"  {len(source.broken):,} broken records: {_some(source.broken)}")
    if source.missing:
        lost = sum(source.missing.values())
        lines.append(f"  {len(source.missing):,} missing videos ({lost:,} pairs): {_some([*source.missing])}")
    return "\n".join(lines)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_EXAMPLES:,} more" if len(names) > _MAX_EXAMPLES else ""
    return "; ".join(names[:_MAX_EXAMPLES]) + more
