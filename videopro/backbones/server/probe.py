"""Detects whether a server accepts sampled frames as a video and keeps their times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from videopro.backbones.server.http import RequestRefused
from videopro.backbones.server.messages import EncodedFrames, Messages, jpeg, user_message
from videopro.backbones.server.replies import prompt_tokens

if TYPE_CHECKING:
    from videopro.backbones.server.completion import Completion

ProbeRequest = tuple[Callable[[], Messages], Mapping[str, Any]]

TIMES_LOST = "it loses the times of a video's frames (as Qwen2.5-VL and older servers do)"
# Start times in seconds: later times take more digits, and so more tokens.
_STARTS = (0, 100_000)
# How servers refuse a part that they do not know or a video that they cannot read. A 500 is among them, so it
# is not retried.
_UNSUPPORTED = {400, 404, 413, 415, 422, 500, 501}


def detect_video_form(
    send: Callable[[Sequence[ProbeRequest]], list[Completion]], frames: int, pixels: int, server: str
) -> tuple[Literal["video", "frames"], str]:
    """Send a blank video twice, with different start times: if the server keeps times, the two prompts differ
    in length. Returns the form, and why it is not a video (empty if it is).

    It has as many frames as a call may have, so that a server's own limit on frames is detected. `send`
    raises `RequestRefused` for a refused request; refusals that are not about the video reach the caller.
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
        if refused.status in _UNSUPPORTED:
            return "frames", str(refused)
        raise
    if prompt_tokens(near, server) == prompt_tokens(far, server):
        return "frames", TIMES_LOST
    return "video", ""
