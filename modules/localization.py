"""Temporal localization: frames of a part of the video, with the subtitles shown at their times (A.1).

Frames are references; nothing is decoded here. Times are seconds of the whole video, also for a clip, unless
a run asks for times from the start of a clip (`clip_times`): in the paper's release a clip is a file of its
own.
"""

from __future__ import annotations

from videopro.modules.calls import (
    CallContext,
    ClipHandle,
    FrameCount,
    FrameHandle,
    PositiveSeconds,
    Seconds,
    Segment,
    VideoHandle,
    module,
)
from videopro.modules.errors import ArgumentError
from videopro.video import fps_times, uniform_times


@module(family="localization", cache=False)
def extract_frames(call: CallContext, video: Segment, num_frames: FrameCount = 32) -> list[FrameHandle]:
    """Take frames of the whole video or of a clip, evenly spread, at most one a second and at most
    num_frames.

    Returns a list of frames in order of time; frame.time is in seconds.
    """
    times = fps_times(video.start, video.end, 1.0, num_frames)
    return [call.context.frame(time) for time in times]


@module(family="localization", cache=False)
def trim_frames(
    call: CallContext, video: Segment, start: Seconds, end: Seconds, num_frames: FrameCount = 64
) -> list[FrameHandle]:
    """Take num_frames frames, evenly spread, from `start` to `end` seconds of the video.

    Returns a list of frames in order of time.
    """
    if end <= start:
        raise ArgumentError(f"trim_frames(): start is {start:g} and end is {end:g}; start must come first")
    return _frames_within(call, "trim_frames", video, start, end, num_frames)


@module(family="localization", cache=False)
def trim_around(
    call: CallContext,
    video: Segment,
    timestamp: Seconds,
    intervals: PositiveSeconds = 30,
    num_frames: FrameCount = 64,
) -> list[FrameHandle]:
    """Take num_frames frames from the `intervals` seconds around `timestamp` (seconds), half before and half
    after.

    Returns a list of frames in order of time.
    """
    start, end = timestamp - intervals / 2, timestamp + intervals / 2
    return _frames_within(call, "trim_around", video, start, end, num_frames)


@module(family="localization", cache=False)
def trim_before(
    call: CallContext,
    video: Segment,
    timestamp: Seconds,
    intervals: PositiveSeconds = 30,
    num_frames: FrameCount = 64,
) -> list[FrameHandle]:
    """Take num_frames frames from the `intervals` seconds before `timestamp` (seconds).

    Returns a list of frames in order of time.
    """
    return _frames_within(call, "trim_before", video, timestamp - intervals, timestamp, num_frames)


@module(family="localization", cache=False)
def trim_after(
    call: CallContext,
    video: Segment,
    timestamp: Seconds,
    intervals: PositiveSeconds = 30,
    num_frames: FrameCount = 64,
) -> list[FrameHandle]:
    """Take num_frames frames from the `intervals` seconds after `timestamp` (seconds).

    Returns a list of frames in order of time.
    """
    return _frames_within(call, "trim_after", video, timestamp, timestamp + intervals, num_frames)


def _frames_within(
    call: CallContext, name: str, video: VideoHandle | ClipHandle, start: float, end: float, count: int
) -> list[FrameHandle]:
    """Frames of the part of start..end that is in the video or clip. A window that reaches over an edge is
    clipped, since programs often add a few seconds on each side; ArgumentError for one wholly outside."""
    # What times count from: the start of the video, unless a run asks for that of the clip.
    zero = video.start if call.context.clip_times == "clip" else 0.0
    first, last = max(zero + start, video.start), min(zero + end, video.end)
    if first >= last:
        segment = "video" if isinstance(video, VideoHandle) else "clip"
        origin = "whole video" if zero == 0.0 else "clip"
        raise ArgumentError(
            f"{name}(): {start:g}-{end:g} s lies outside the {segment}, which goes from "
            f"{video.start - zero:g} to {video.end - zero:g} s (times are seconds of the {origin})"
        )
    return [call.context.frame(time) for time in uniform_times(first, last, count)]
