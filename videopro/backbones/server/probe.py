"""Whether a server takes sampled frames as a video, and keeps their times.

Knows how such a video is sent and what comes back. Knows nothing of questions or HTTP.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from videopro.backbones.server.http import RequestRefused
from videopro.backbones.server.messages import EncodedFrames, Messages, jpeg, user_message
from videopro.backbones.server.replies import prompt_tokens

if TYPE_CHECKING:
    from videopro.backbones.server.completion import Completion

logger = logging.getLogger(__name__)

ProbeRequest = tuple[Callable[[], Messages], Mapping[str, Any]]

# Where the frames are said to lie, in seconds: the later ones take more digits to write.
_STARTS = (0, 100_000)
# What servers answer to a part that they do not know or a video that they cannot read; a 500 too, and so that
# is not tried again.
_NOT_TAKEN = {400, 404, 413, 415, 422, 500, 501}


def detect_video_form(
    send: Callable[[Sequence[ProbeRequest]], list[Completion]], frames: int, pixels: int, server: str
) -> Literal["video", "frames"]:
    """Send a blank video twice, said to lie at different times: only true times make prompts of two lengths.

    It has as many frames as a call may hold, so that a server's own cap on frames is met here. `send` raises
    `RequestRefused` for a refused request; refusals that are not about the video go on to the caller.
    """
    blank = jpeg(np.full((128, 128, 3), 127, dtype=np.uint8), pixels)
    count = max(2, frames)
    rows: list[ProbeRequest] = []
    for start in _STARTS:
        encoded = EncodedFrames((blank,) * count, tuple(float(start + place) for place in range(count)))
        message = functools.partial(user_message, encoded, "Reply with A.", True)
        rows.append((message, {"max_tokens": 1, "temperature": 0.0}))
    try:
        near, far = send(rows)
    except RequestRefused as refused:
        if refused.status in _NOT_TAKEN:
            logger.info("%s takes no sampled video: %s", server, refused)
            return "frames"
        raise
    return "video" if prompt_tokens(near, server) != prompt_tokens(far, server) else "frames"
