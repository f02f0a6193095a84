"""The video files that a command is given: files, folders of them, or those that a plug-in makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from videopro.backbones import find_video
from videopro.errors import ConfigError
from videopro.video import FILM_ENDINGS, check_no_url, files_below

VIDEOS_HELP = "video files, folders of them, or videos of a plug-in as NAME:VIDEO"


def named_videos(names: Sequence[str]) -> list[Path]:
    """The files, each once, in their order. Raises VideoProError for an address, a folder without videos or
    an unknown video of a plug-in."""
    for name in names:
        check_no_url(name)
    return list(dict.fromkeys(path for name in names for path in _videos(Path(name))))


def _videos(path: Path) -> list[Path]:
    if not path.is_dir():
        return [find_video(path)]
    files = sorted(p for p in files_below(path) if p.suffix.lower() in FILM_ENDINGS)
    if not files:
        raise ConfigError(f"{path}: no video files in it ({', '.join(sorted(FILM_ENDINGS))})")
    return files
