"""The frames that a direct question shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from videopro.video.video import Video, fps_times, uniform_times

SampleRule = Literal["midpoints", "ends", "ends_floor", "starts", "between"]


def frame_times(video: Video, rule: SampleRule, budget: int, fps: float | None) -> list[float]:
    """Times (s) of at most `budget` frames over a video, at most `fps` per second, at least one.

    midpoints: the middles of n equal parts. starts: the starts of the parts, from 0 (LongVideoBench). ends:
    the frames numbered linspace(0, N - 1, n) of N, rounded, so the first and the last frame are among them
    (qwen-vl-utils, and lmms-eval's models that use it); with `fps`, n as there too: even, and 4 at least.
    ends_floor: the same, rounded down (lmms-eval's own loaders). between: the frames numbered
    int(i N / (n + 1)), i from 1 to n, without either end; with `fps`, int(i F / fps) from 0, F the frames per
    second of the video (Video-MME-v2).
    """
    duration = video.duration
    if rule == "midpoints":
        if fps is None:
            return uniform_times(0.0, duration, budget)
        return fps_times(0.0, duration, fps, budget)
    # A thousandth of a frame counts as rounding: 10 s at 0.1 frames per second is one frame, not none.
    n = budget if fps is None else max(1, math.floor(min(budget, duration * fps + 1e-3)))
    if rule == "starts":
        return [i * duration / n for i in range(n)]
    # Counted by the rate, as the loaders that these rules follow do; frames are still decoded by their time.
    total = max(1, round(duration * video.fps))
    if rule == "between":
        numbers = _between(total, budget, fps, video.fps)
    elif rule == "ends_floor":
        numbers = [int(number) for number in np.linspace(0, total - 1, min(n, total))]
    else:
        numbers = _ends(total, budget if fps is None else _qwen_count(total, budget, fps, video.fps))
    return [_on_display(number, video.fps) for number in numbers]


def _qwen_count(total: int, budget: int, fps: float, video_fps: float) -> int:
    """How many frames qwen-vl-utils takes of `total` (smart_nframes): Qwen-VL looks at them in pairs."""
    most = min(budget // 2 * 2, total)
    return int(min(max(total / video_fps * fps, 4), most)) // 2 * 2


def _ends(total: int, n: int) -> list[int]:
    n = max(1, min(n, total))
    # As torch.linspace has it, in float32 with one rounding: in long videos another frame is the nearest.
    step = float(np.float32(total - 1) / np.float32(max(1, n - 1)))
    numbers = [step * i if i < n // 2 or n == 1 else total - 1 - step * (n - 1 - i) for i in range(n)]
    return [int(number) for number in np.array(numbers, np.float32).round()]


def _between(total: int, budget: int, fps: float | None, video_fps: float) -> list[int]:
    if fps is not None and 1 <= (count := total / video_fps * fps) < budget + 1:
        return [int(i * (video_fps / fps)) for i in range(int(count))]
    n = budget if fps is None or count >= 1 else 1
    return [int(i * (total / (n + 1))) for i in range(1, n + 1)]


def clue_times(
    intervals: Sequence[tuple[float, float]], duration: float, fps: float, budget: int
) -> list[float]:
    """Times (s) of the frames that CG-Bench shows for a clue, in order.

    Frames are shared out in proportion to the intervals' lengths, at least one for each, at the middles of
    equal parts; if the intervals have no more than `budget` frames, all are shown (run/utils.py,
    sample_frames_clue_average, of CG-Bench/CG-Bench). Intervals are cut to the video, and there are never
    more than `budget` times.
    """
    ends = [(min(start, duration), min(end, duration)) for start, end in sorted(intervals)]
    numbered = [(round(start * fps), round(end * fps)) for start, end in ends]
    total = sum(last - first for first, last in numbered)
    if 0 < total <= budget:
        numbers = [number for first, last in numbered for number in range(first, last)]
    else:
        numbers = []
        for first, last in numbered:
            count = max(1, int(budget * ((last - first) / total)) if total else 1)
            size = (last - first) / count
            numbers += [int(first + size / 2 + size * i) for i in range(count)]
    return [min(_on_display(number, fps), duration) for number in sorted(numbers)[:budget]]


def _on_display(number: int, fps: float) -> float:
    """A time at which the frame `number` is shown, safe from rounding."""
    return (number + 0.5) / fps
