"""How a video is divided into the clips of its database (section 3.1)."""

from __future__ import annotations

from itertools import pairwise

from videopro.methods.dvd.settings import DvdSettings
from videopro.modules.search import clip_bounds
from videopro.video import Subtitles


def clip_borders(
    duration: float, settings: DvdSettings, subtitles: Subtitles | None
) -> list[tuple[float, float]]:
    """(start, end) in seconds of each clip, without gaps. With segmentation "transcript", a border moves to
    the nearest end of a subtitle line, if there is one within half a clip, so as to cut no sentence."""
    bounds = list(clip_bounds(duration, settings.clip_seconds))
    if settings.segmentation == "uniform" or subtitles is None:
        return bounds
    ends = sorted({line.end for line in subtitles.lines if 0 < line.end < duration})
    borders = [0.0]
    for _, border in bounds[:-1]:
        # Within half a clip, so that two borders never swap.
        near = [end for end in ends if abs(end - border) < settings.clip_seconds / 2]
        borders.append(min(near, key=lambda end: abs(end - border), default=border))
    return list(pairwise([*borders, duration]))


def spoken_in(subtitles: Subtitles | None, start: float, end: float) -> str:
    """What is said in a clip: the lines that begin in it, so that each line belongs to one clip."""
    if subtitles is None:
        return ""
    return " ".join(line.text for line in subtitles.lines if start <= line.start < end)
