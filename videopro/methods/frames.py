"""How a trace refers to frames."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.traces import FrameRef
from videopro.video import Frame


def frame_refs(frames: Sequence[Frame]) -> tuple[FrameRef, ...]:
    """What a trace stores of frames: times, sizes and boxes."""
    return tuple(
        (round(frame.time, 3), *map(float, frame.image.shape[:2]), *(frame.box or ())) for frame in frames
    )
