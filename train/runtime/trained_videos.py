"""Which videos a planner was trained on, by stage: recorded with it, and compared with those of the next.

Overlap is a warning and no error: a run on the same videos is valid, and the first thing to try on a small
set. But it is not what a researcher expects of two stages. On questions that SFT has taught, most replies of
a group get the same reward, and GRPO learns little from them (docs/results/grpo.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from videopro.errors import VideoError
from videopro.storage import parse_json
from videopro.train.runtime.rows import HasVideo
from videopro.video.decoding import content_id

Stage = Literal["sft", "grpo"]
VideosByStage = Mapping[str, list[str]]
"""Content ids (`Video.id`), sorted, by the stage that was trained on them."""


def contents(rows: Iterable[HasVideo]) -> dict[str, Path]:
    """The videos of rows by their contents, so that a moved or renamed file is the same; those that cannot
    be read are left out, as their rows are dropped."""
    paths: dict[str, Path] = {}
    for path in sorted({row.video for row in rows if row.video is not None}):
        try:
            paths[content_id(path)] = path
        except (VideoError, OSError):
            continue
    return paths


def recorded_videos(record: Path) -> dict[str, list[str]]:
    """The videos that a planner's training_record.json names; none if there is none, or of another origin."""
    try:
        videos = parse_json(record.read_text(encoding="utf-8"), infinite=True).get("videos", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return {stage: list(ids) for stage, ids in videos.items()} if isinstance(videos, dict) else {}


def with_stage(before: VideosByStage, stage: Stage, rows: Iterable[HasVideo]) -> dict[str, list[str]]:
    """The videos of a planner that a stage has trained further."""
    return {**before, stage: sorted({*before.get(stage, ()), *contents(rows)})}


def overlap_warning(before: VideosByStage, rows: Iterable[HasVideo], start: str) -> str | None:
    """What to tell before GRPO on videos that the start was fine-tuned on; None if there are none."""
    to_train = contents(rows)
    taught = sorted(path for content, path in to_train.items() if content in set(before.get("sft", ())))
    if not taught:
        return None
    return (
        f"warning: {len(taught)} of {len(to_train)} videos of train_data are among those that {start} was "
        f"fine-tuned on (the first: {taught[0]}); on questions that SFT has taught, GRPO has little to gain: "
        "make the two sets of different videos, with videopro synthesize --sft-share"
    )
