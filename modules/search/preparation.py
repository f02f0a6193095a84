"""Clip indexes with what building them cost, whichever run built them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from videopro.backbones.wrappers import Meter
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.modules.search.clip_index import (
    CLIP_SECONDS,
    ClipIndex,
    build_index,
    default_root,
    index_path,
)
from videopro.storage import InvalidJson, parse_json, write_atomically
from videopro.traces import Cost, Preparation
from videopro.video import Video


def prepare_index(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> tuple[ClipIndex, Preparation]:
    """The clip index of a video, built if it is missing, and its cost: seconds of building and decoded
    frames. The cost is kept beside the index; that of an index without one is not known, nor that of a build
    that was interrupted and resumed. Raises as `build_index`."""
    root = root if root is not None else default_root()
    path = index_path(video, encoder, clip_seconds=clip_seconds, root=root)
    record = path.with_suffix(".cost.json")
    # The parts of an interrupted build would make it look cheap.
    is_new = not path.exists() and not any(path.parent.glob(f"{path.stem}.part*"))
    meter = Meter()
    index = build_index(video, encoder, clip_seconds=clip_seconds, root=root)
    if is_new:
        cost = meter.take() + Cost(frames=len(index.clips) * encoder.clip_frames)
        figures = {name: value for name, value in asdict(cost).items() if name in ("seconds", "frames")}
        write_atomically(record, _json(figures), shared=True)
    recorded = _read(record)
    key = f"{video.id}/{path.stem}"
    return index, Preparation(
        "index", key, recorded or Cost(), is_known=recorded is not None, stand_ins=index.stand_ins
    )


def _json(figures: dict[str, float]) -> str:
    return "{" + ", ".join(f'"{name}": {value!r}' for name, value in figures.items()) + "}\n"


def _read(record: Path) -> Cost | None:
    try:
        figures = parse_json(record.read_bytes())
        return Cost(seconds=float(figures["seconds"]), frames=float(figures["frames"]))
    except (OSError, InvalidJson, KeyError, TypeError, ValueError):
        return None
