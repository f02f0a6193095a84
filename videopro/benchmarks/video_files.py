"""Finds the videos and subtitles of a benchmark in its folder. Opens none."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from videopro.storage import InvalidJson, parse_json

VIDEO_ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")


class VideoFiles:
    """Finds videos and subtitles under a folder: in the usual subfolders first, then anywhere below it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def video(self, name: str, *folders: str) -> Path:
        """The path of a video, `name` with or without extension; the first usual path if no file exists.
        Without `folders`, the usual one is the root."""
        folders = folders or ("",)
        stem = Path(name).name.removesuffix(_ending(name))
        endings = (_ending(name),) if _ending(name) else VIDEO_ENDINGS
        places = [
            self.root / folder / f"{name.removesuffix(_ending(name))}{ending}"
            for folder in folders
            for ending in endings
        ]
        for place in places:
            if _is_there(place):
                return place
        return self._anywhere.get(stem) or self._numbered.get(stem, places[0])

    def optional_file(self, name: str, *folders: str) -> Path | None:
        """An optional file, such as subtitles, in one of these folders; None if no folder has it."""
        places = (self.root / folder / name for folder in folders)
        return next((place for place in places if _is_there(place)), None)

    def folder(self, *folders: str) -> Path | None:
        """The first of these folders that exists."""
        return next((self.root / folder for folder in folders if (self.root / folder).is_dir()), None)

    @cached_property
    def _anywhere(self) -> dict[str, Path]:
        # Several files with one name are copies, so any will do; videos of one benchmark that share a name
        # are found in their usual folders.
        return {
            path.stem: path
            for path in sorted(self.root.rglob("*"), reverse=True)
            if path.suffix.lower() in VIDEO_ENDINGS
        }

    @cached_property
    def _numbered(self) -> dict[str, Path]:
        """Files that video2dataset numbered (00000/00000.mp4), by the YouTube id of the url
        in the .json file beside each (iejMac/video2dataset, README.md, output format)."""
        found = {}
        for path in self._anywhere.values():
            if path.stem.replace("_", "").isdecimal() and (about := path.with_suffix(".json")).is_file():
                try:
                    url = parse_json(about.read_bytes()).get("url")
                except (OSError, InvalidJson, AttributeError):
                    continue
                if name := youtube_id(url):
                    found[name] = path
        return found


def youtube_id(url: Any) -> str:
    """The id of the video that a url names; empty for anything else."""
    match = _YOUTUBE.search(url) if isinstance(url, str) else None
    return match[1] if match else ""


_YOUTUBE = re.compile(r"(?:v=|youtu\.be/|shorts/)([\w-]{11})(?![\w-])")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name or path that is too long for the file system
        return False


def _ending(name: str) -> str:
    suffix = Path(name).suffix
    return suffix if suffix.lower() in VIDEO_ENDINGS else ""
