"""Finds files in folders: through links, and subtitles under the names that downloaders give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from videopro.errors import SubtitleError
from videopro.video.subtitle_tracks import is_language, language_of, says_a_part

SUBTITLE_ENDINGS = (".srt", ".vtt", ".ass", ".ssa")
VIDEO_ENDINGS = (
    *(".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v"),
    *(".ts", ".mpg", ".mpeg", ".flv", ".wmv"),
)
"""Extensions of the files that count as videos when a folder is searched."""
# What stands between a name and the ending, other than languages, and how many of both.
_KINDS = {"sdh", "cc", "hi", "full", "default", "auto", "orig", "manual"}
_MOST_TAGS = 3


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and its subfolders, links followed; each folder once, so that links may form
    cycles. Unreadable files are skipped."""
    seen: set[tuple[int, int]] = set()
    left = [str(folder)]
    while left:
        path = left.pop()
        try:
            state = os.stat(path)
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
            with os.scandir(path) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in children:
            try:
                if entry.is_dir():
                    left.append(entry.path)
                elif entry.is_file():
                    yield Path(entry.path)
            except OSError:
                continue


def names_of(stem: str) -> tuple[str, ...]:
    """The names by which a file may be asked for: its own, without the ending, and the id that downloaders
    put at its end, as in "Title [ID]" (yt-dlp) and "Title-ID" (youtube-dl, whose ids have 11 characters)."""
    match = _IN_BRACKETS.search(stem) or _AFTER_DASH.search(stem)
    return (stem, match[1]) if match else (stem,)


_IN_BRACKETS = re.compile(r"\[([^\[\]]+)\]$")
_AFTER_DASH = re.compile(r".-([\w-]{11})$")


class SubtitleFiles:
    """The subtitle files of a folder, by the names of their videos: NAME.srt, NAME.vtt, NAME.en.srt,
    Title [NAME].en.vtt ..."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._by_name: dict[str, list[tuple[tuple[str, ...], Path]]] = {}
        for file in files:
            if file.suffix.lower() in SUBTITLE_ENDINGS:
                for base, tags in _readings(file.stem):
                    for name in names_of(base):
                        self._by_name.setdefault(name, []).append((tags, file))

    def find(self, *names: str) -> Path | None:
        """The subtitles of the video with one of these names, or None.

        A file without a language comes first, then English (en before en-US); of equal ones a .srt. Forced
        subtitles, and other partial ones, are used only if there are no full ones. Raises SubtitleError if
        several languages are left.
        """
        candidates = [each for name in dict.fromkeys(names) for each in self._by_name.get(name, ())]
        full = [(tags, file) for tags, file in candidates if not any(map(says_a_part, tags))] or candidates
        by_language: dict[str, list[tuple[tuple[str, ...], Path]]] = {}
        for tags, file in full:
            language = next((language_of(tag) for tag in tags if is_language(tag)), "")
            by_language.setdefault(language, []).append((tags, file))
        # English, because the benchmarks ask in it.
        chosen = by_language.get("") or by_language.get("en") or next(iter(by_language.values()), None)
        if chosen is None:
            return None
        if len(by_language) > 1 and not by_language.keys() & {"", "en"}:
            file_names = ", ".join(sorted({file.name for _, file in full}))
            raise SubtitleError(
                f"{chosen[0][1].parent}: several subtitle files match {names[0]}: {file_names}; keep one, or "
                f"rename it to {names[0]}.srt"
            )
        _, file = min(
            chosen, key=lambda each: (len(each[0]), len(str(each[0])), _format_rank(each[1]), str(each[1]))
        )
        return file


def _readings(stem: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names that a file's may consist of: a video's, and what follows it of the subtitles: a language,
    and what kind they are."""
    base, tags = stem, tuple[str, ...]()
    yield base, tags
    for _ in range(_MOST_TAGS):
        base, dot, tag = base.rpartition(".")
        if not dot or not base or not (is_language(tag) or tag.lower() in _KINDS or says_a_part(tag)):
            return
        tags = (tag, *tags)
        yield base, tags


def _format_rank(file: Path) -> int:
    return SUBTITLE_ENDINGS.index(file.suffix.lower())
