"""The subtitles that belong to a video file: in it, or beside it."""

from __future__ import annotations

from pathlib import Path

from videopro.video.finding import SubtitleFiles, names_of
from videopro.video.subtitles import has_embedded_subtitles


def subtitles_of(video: Path) -> Path | None:
    """The file of a video's subtitles: its own if there are some in it, else one beside it (film.srt,
    film.en.srt); None if there are none. Raises SubtitleError if several beside it may be meant."""
    if has_embedded_subtitles(video):
        return video
    return SubtitleFiles(video.parent.iterdir()).find(*names_of(video.stem))
