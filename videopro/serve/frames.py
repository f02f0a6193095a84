"""One picture of a film as JPEG."""

from __future__ import annotations

import numpy as np
import simplejpeg

from videopro.errors import VideoError
from videopro.serve.problems import Problem
from videopro.video import Video

_QUALITY = 85


def jpeg_of(video: Video, time: float, side: int, box: str | None = None) -> bytes:
    """The frame on display at `time` (s), or its part within `box`, with a longer side of at most `side`
    pixels. Raises Problem for a box that is none, VideoError for a frame that cannot be read."""
    corners = None if box is None else _corners(box)
    longest = max(video.width, video.height)
    # A part of a picture is cut from one that is large enough for it.
    share = 1.0 if corners is None else max(corners[2] - corners[0], corners[3] - corners[1])
    scale = min(1.0, side / (longest * max(share, 1e-3)))
    size = max(1, round(video.height * scale)), max(1, round(video.width * scale))
    (frame,) = video.frames([time], size=size)
    if corners is not None:
        try:
            frame = frame.crop(corners)
        except VideoError as error:
            raise Problem(400, str(error), code="no_box", param="box") from error
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(frame.image), quality=_QUALITY))


def _corners(box: str) -> tuple[float, float, float, float]:
    try:
        x0, y0, x1, y1 = map(float, box.split(","))
    except ValueError:
        message = f"box {box[:60]!r}: give x0,y0,x1,y1 in 0..1 of the picture"
        raise Problem(400, message, code="no_box", param="box") from None
    return x0, y0, x1, y1
