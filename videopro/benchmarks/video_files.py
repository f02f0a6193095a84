"""Finds the videos and subtitles of a benchmark in its folder, without opening them."""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from videopro.errors import BenchmarkError, SubtitleError
from videopro.storage import InvalidJson, parse_json
from videopro.video import VIDEO_ENDINGS, SubtitleFiles, files_below, names_of


class VideoFiles:
    """Finds videos and subtitles in a folder: in the usual subfolders first, then anywhere below it,
    following links and with the file names of downloaders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._subtitle_files: dict[Path, SubtitleFiles] = {}

    def video(self, name: str, *folders: str) -> Path:
        """The path of a video, `name` with or without extension; the first usual path if no file exists.
        Without `folders`, the usual one is the root. Raises BenchmarkError if several files match."""
        folders = folders or ("",)
        stem = Path(name).name.removesuffix(_ending(name))
        endings = (_ending(name),) if _ending(name) else VIDEO_ENDINGS
        paths = [
            self.root / folder / f"{name.removesuffix(_ending(name))}{ending}"
            for folder in folders
            for ending in endings
        ]
        for path in paths:
            if _is_there(path):
                return path
        match = self._anywhere.get(stem) or self._numbered.get(stem) or self._with_id(stem)
        return match or paths[0]

    def subtitles(self, name: str, *folders: str, video: Path) -> Path | None:
        """The subtitles of a video (its name without an ending) in one of these folders, or next to the file
        `video`: NAME.srt, or with names of downloaders, NAME.en.srt, NAME.vtt, Title [NAME].en.vtt; None if
        there are none. Raises BenchmarkError if several files match."""
        parents = [self.root / folder for folder in folders]
        for parent in parents:
            if _is_there(file := parent / f"{name}.srt"):
                return file
        try:
            for parent in dict.fromkeys((*parents, video.parent)):
                if (path := self._subtitles_in(parent).find(name, video.stem)) is not None:
                    return path
        except SubtitleError as error:
            raise BenchmarkError(str(error)) from None
        return None

    def _subtitles_in(self, folder: Path) -> SubtitleFiles:
        if folder not in self._subtitle_files:
            entries = os.scandir(folder) if folder.is_dir() else ()
            self._subtitle_files[folder] = SubtitleFiles(Path(entry.path) for entry in entries)
        return self._subtitle_files[folder]

    def folder(self, *folders: str) -> Path | None:
        """The first of these folders that exists."""
        return next((self.root / folder for folder in folders if (self.root / folder).is_dir()), None)

    @cached_property
    def _videos(self) -> list[Path]:
        return [path for path in sorted(files_below(self.root)) if path.suffix.lower() in VIDEO_ENDINGS]

    @cached_property
    def _anywhere(self) -> dict[str, Path]:
        # Several files with one name are copies, so any will do; videos of one benchmark that share a name
        # are found in their usual folders.
        return {path.stem: path for path in reversed(self._videos)}

    @cached_property
    def _by_id(self) -> dict[str, list[Path]]:
        """Files that yt-dlp or youtube-dl named, by the id at the end of their names."""
        by_id: dict[str, list[Path]] = {}
        for path in self._videos:
            for name in names_of(path.stem)[1:]:
                by_id.setdefault(name, []).append(path)
        return by_id

    def _with_id(self, name: str) -> Path | None:
        candidates = self._by_id.get(name, [])
        # Files of one size are copies of one download.
        if len({path.stat().st_size for path in candidates}) > 1:
            names = ", ".join(str(path.relative_to(self.root)) for path in candidates)
            raise BenchmarkError(
                f"several files in {self.root} match the video {name!r}: {names}; keep one of them, or "
                f"rename it to {name}{candidates[0].suffix}"
            )
        return candidates[0] if candidates else None

    @cached_property
    def _numbered(self) -> dict[str, Path]:
        """Files that video2dataset numbered (00000/00000.mp4), by the YouTube id of the url
        in the .json file next to each (iejMac/video2dataset, README.md, output format)."""
        numbered = {}
        for path in self._anywhere.values():
            if path.stem.replace("_", "").isdecimal() and (about := path.with_suffix(".json")).is_file():
                try:
                    url = parse_json(about.read_bytes()).get("url")
                # Any other .json may be next to a video.
                except (OSError, InvalidJson, AttributeError):
                    continue
                if name := youtube_id(url):
                    numbered[name] = path
        return numbered


def youtube_id(url: Any) -> str:
    """The video id in a YouTube URL; empty for anything else."""
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
