"""Transcripts as subtitle files, to look at and to correct. What a user may have corrected stays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pysubs2

from videopro.errors import ConfigError
from videopro.modules.models import Transcript
from videopro.storage import write_atomically

SubtitleFormat: TypeAlias = Literal["srt", "vtt"]


@dataclass(frozen=True)
class Written:
    """A subtitle file, or why there is none."""

    path: Path
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason or 'written'}"


def write_subtitles(
    transcript: Transcript, video: Path, kind: SubtitleFormat | None, folder: Path | None
) -> Written | None:
    """Write the subtitle file of a video into `folder`; None: beside the video. A file that is there stays as
    it is. Returns None if no `kind` is asked for. Raises ConfigError if it cannot be written."""
    if kind is None:
        return None
    path = (folder or video.parent) / f"{video.stem}.{kind}"
    if not transcript.lines:
        # An empty file would be taken for a damaged one.
        return Written(path, "not written: nothing is said")
    if path.exists():
        return Written(path, "left as it is; delete it to have it written again")
    subtitles = pysubs2.SSAFile()
    for line in transcript.lines:
        event = pysubs2.SSAEvent(round(line.start * 1000), round(line.end * 1000))
        event.plaintext = line.text
        subtitles.append(event)
    # With tags kept, since a brace in a transcript is no formatting.
    text = subtitles.to_string(kind, keep_ssa_tags=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, shared=True)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}); give another folder with --output"
        ) from error
    return Written(path)
