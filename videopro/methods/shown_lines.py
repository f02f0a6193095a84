"""Which subtitle lines a direct question shows, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from videopro.video import SubtitleLine, Subtitles

LineRule = Literal[
    "none",
    "frames",
    "frames_until",
    "frames_inside",
    "frames_widened",
    "interleaved",
    "interleaved_overlapping",
    "all",
]


def shown_lines(subtitles: Subtitles, rule: LineRule, times: Sequence[float]) -> Sequence[SubtitleLine]:
    """The lines for frames at `times` (s), by rule.

    frames: spoken at a frame, start <= t <= end. frames_until: start <= t < end, as one row each (Video-MME,
    lmms_eval/tasks/videomme/utils.py of lmms-eval). frames_inside: start < t < end, as one row each, in the
    order of the frames (CG-Bench, get_subtitles of run/utils.py). frames_widened and interleaved: see
    `Subtitles.visible_at` (LongVideoBench). interleaved_overlapping: all; `lines_after` places them
    (Video-MME-v2).
    """
    lines = subtitles.lines
    if rule == "none":
        return ()
    if rule in ("all", "interleaved_overlapping"):
        return lines
    if rule in ("frames_widened", "interleaved"):
        return subtitles.visible_at(times)
    if rule == "frames_inside":
        inside = [line for time in times for line in lines if line.start < time < line.end]
        return list(dict.fromkeys(map(_one_row, inside)))
    if rule == "frames_until":
        return [_one_row(line) for line in lines if any(line.start <= time < line.end for time in times)]
    return [line for line in lines if any(line.start <= time <= line.end for time in times)]


def lines_before(lines: Sequence[SubtitleLine], times: Sequence[float]) -> list[list[SubtitleLine]]:
    """Where LongVideoBench puts lines between frames at `times` (s): one list for each frame, of the lines
    before it, and one of those after the last frame.

    A line stands after every frame up to its middle, and never before an earlier line
    (insert_subtitles_into_frames of longvideobench_dataset.py).
    """
    reached = 0
    placed: list[list[SubtitleLine]] = [[] for _ in range(len(times) + 1)]
    for line in lines:
        middle = (line.start + line.end) / 2
        while reached < len(times) and times[reached] <= middle:
            reached += 1
        placed[reached].append(line)
    return placed


def lines_after(
    lines: Sequence[SubtitleLine], times: Sequence[float], duration: float
) -> list[list[SubtitleLine]]:
    """As `lines_before`, where Video-MME-v2 puts them: after each frame at `times` (s) the lines that are on
    until the next one, or until the end of the video, at `duration` (s). A long line stands after several
    (segments_between_timestamps of evaluation/test_video_mme_v2.py)."""
    gaps = zip(times, [*times[1:], duration], strict=True)
    return [[], *([line for line in lines if line.end >= start and line.start < end] for start, end in gaps)]


def _one_row(line: SubtitleLine) -> SubtitleLine:
    return replace(line, text=" ".join(line.text.split("\n")))
