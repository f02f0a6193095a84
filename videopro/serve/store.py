"""The videos of a server: uploaded ones, and those in the operator's folders that clients have opened.

    FOLDER/videos/file-0123.../about.json     the record
    FOLDER/videos/file-0123.../video.mp4      an uploaded video
    FOLDER/videos/file-0123.../video.srt      uploaded subtitles

The id of an uploaded video is a hash of its content, so each video is stored once. A video in a folder stays
there; its id comes from its path, size and modification time.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from pydantic import TypeAdapter

from videopro.backbones import MODELS
from videopro.errors import SubtitleError, VideoError
from videopro.serve.problems import Problem
from videopro.storage import encodable, printable, write_atomically
from videopro.video import (
    SUBTITLE_ENDINGS,
    VIDEO_ENDINGS,
    Video,
    files_below,
    load_subtitles,
    subtitles_of,
)

logger = logging.getLogger(__name__)

ID_PREFIX = "file-"
FOLDER_PREFIX = "folder:"
_MOST_VIDEOS = 10_000
"""Videos that are listed from the folders."""
_DIGITS = 32
_HOME = re.compile(rf"{ID_PREFIX}[0-9a-f]{{{_DIGITS}}}")
_PART = "part-"
_ABOUT = "about.json"
_STEM = "video"
_LONGEST_NAME = 200
_KEPT_VIDEOS = 64


@dataclass(frozen=True)
class StoredVideo:
    """A video on the server."""

    id: str
    name: str
    """Its file name, for display only."""
    path: Path
    bytes: int
    modified: int
    """Modification time in ns; a file that changes is another video."""
    created_at: int
    """When the server first saw it, in seconds since 1970."""
    duration: float
    """Seconds."""
    width: int
    height: int
    is_uploaded: bool
    subtitles: Path | None = None
    """A subtitle file, or the video itself for an embedded track; None: no subtitles."""


_RECORD = TypeAdapter(StoredVideo)


class VideoStore:
    """The videos in a folder, which is created if it is missing. Thread-safe.

    `limit_bytes`: limit for all uploaded videos together. `folders`: the operator's folders. Raises OSError
    if the folder cannot be written.
    """

    def __init__(self, folder: Path, limit_bytes: int, folders: Sequence[Path] = ()) -> None:
        self.incoming = folder / "incoming"
        """Where uploads are written until they are complete."""
        self.limit_bytes = limit_bytes
        self.folders = VideoFolders(folders)
        self._folder = folder / "videos"
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        """Held while a video is stored: two clients may upload the same one."""
        self._kept: dict[Path | None, int] = {}
        """Reserved bytes, by the file that is being uploaded."""
        self.incoming.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        # What a killed server left. By their names: the folder may hold files of somebody else.
        for left in self.incoming.glob(f"{_PART}*"):
            left.unlink(missing_ok=True)
        homes = [home for home in sorted(self._folder.iterdir()) if _HOME.fullmatch(home.name)]
        self._videos = {stored.id: stored for stored in map(_read, homes) if stored is not None}

    @property
    def size(self) -> int:
        """Bytes of all uploaded videos."""
        with self._lock:
            return sum(stored.bytes for stored in self._videos.values() if stored.is_uploaded)

    @contextmanager
    def receive(self, size: int) -> Iterator[Path]:
        """A temporary path for an upload of at most `size` bytes, removed afterwards unless the file was
        added. Raises Problem if the limit leaves no room for it."""
        part = self.incoming / f"{_PART}{uuid.uuid4().hex}"
        with self._lock:
            room = self.limit_bytes - self.size - sum(self._kept.values())
            if size > room:
                message = (
                    f"the file is larger than the {max(0, room):,} bytes that are left for videos; "
                    "delete one, or ask the operator"
                )
                raise Problem(413, message, code="no_room", param="file")
            # Kept before anything is written: clients upload at the same time.
            self._kept[part] = size
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)
            with self._lock:
                self._kept.pop(part, None)

    def all(self) -> list[StoredVideo]:
        """All videos, newest first."""
        with self._lock:
            return sorted(self._videos.values(), key=lambda stored: stored.created_at, reverse=True)

    def get(self, id: str) -> StoredVideo:
        """A video by its id. Raises Problem for an unknown id, and for a file in a folder that has moved or
        changed."""
        with self._lock:
            stored = self._videos.get(id)
        if stored is None:
            message = f"there is no video {printable(id, 60)!r} here; name one that is here, or its path"
            raise Problem(404, message, code="no_video")
        if _has_changed(stored):
            message = f"{stored.name}: moved or changed in its folder; open it by its path again"
            raise Problem(410, message, code="video_changed")
        return stored

    def add(self, part: Path, name: str) -> StoredVideo:
        """Store an uploaded file (`receive`), or return the video with the same content. Raises Problem for a
        file that is not a video."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        id = _id(digest)
        with self._writing:
            if id in self._videos and not _has_changed(self._videos[id]):
                return self._videos[id]
            video = _opened(part, name)
            ending = PurePath(name).suffix.lower()
            home = self._folder / id
            home.mkdir(exist_ok=True)
            path = home / f"{_STEM}{ending if ending in VIDEO_ENDINGS else '.mp4'}"
            part.replace(path)
            for own in MODELS.working():
                own.mark_copy(path, digest)
            return self._keep(_described(id, name, path, video, is_uploaded=True), part)

    def from_folder(self, relative: str) -> StoredVideo:
        """The video at a relative path in the operator's folders. Raises Problem."""
        return self.at(self.folders.resolve(relative), relative)

    def at(self, path: Path, name: str) -> StoredVideo:
        """The video in a file of this machine, which stays there. Raises Problem."""
        state = path.stat()
        # Not by its content, which takes long to read.
        id = _id(hashlib.sha256(f"{path}\0{state.st_size}\0{state.st_mtime_ns}".encode()).hexdigest())
        with self._writing:
            if id in self._videos:
                return self._videos[id]
            stored = _described(id, name, path, _opened(path, name), is_uploaded=False)
            (self._folder / id).mkdir(exist_ok=True)
            return self._keep(stored)

    def set_subtitles(self, id: str, name: str, part: Path) -> StoredVideo:
        """Store uploaded subtitles, which replace the video's current ones. Raises Problem for a file that
        has no subtitles."""
        with self._writing:
            stored = self.get(id)
            ending = PurePath(name).suffix.lower()
            # Named by its format before it is read.
            new = part.replace(part.with_suffix(ending if ending in SUBTITLE_ENDINGS else ".srt"))
            try:
                load_subtitles(new, duration=stored.duration)
                home = self._folder / stored.id
                home.mkdir(exist_ok=True)
                path = new.replace(home / f"{_STEM}{new.suffix}")
            except SubtitleError as error:
                message = str(error).replace(str(new), _printable_name(name))
                raise Problem(400, message, code="no_subtitles", param="file") from error
            finally:
                new.unlink(missing_ok=True)
            return self._keep(replace(stored, subtitles=path))

    def delete(self, id: str) -> None:
        """Delete an uploaded video, or forget one in a folder, which stays there. Raises Problem for an
        unknown id."""
        with self._writing:
            with self._lock:
                stored = self._videos.pop(id, None)
            if stored is None:
                raise Problem(404, f"there is no video {printable(id, 60)!r} here", code="no_video")
            shutil.rmtree(self._folder / stored.id, ignore_errors=True)

    def _keep(self, stored: StoredVideo, part: Path | None = None) -> StoredVideo:
        """Record a video; it takes over the bytes reserved for `part`."""
        write_atomically(self._folder / stored.id / _ABOUT, _RECORD.dump_json(stored, indent=1))
        with self._lock:
            self._videos[stored.id] = stored
            self._kept.pop(part, None)
        return stored


def video_of(stored: StoredVideo) -> Video:
    """The opened video; opened once. Raises VideoError."""
    return _open(stored.path, stored.modified)


@lru_cache(_KEPT_VIDEOS)
def _open(path: Path, modified: int) -> Video:
    return Video.open(path)


def _id(digest: str) -> str:
    return ID_PREFIX + digest[:_DIGITS]


def _printable_name(name: str) -> str:
    """A client's file name for display and storage: the last part of a path, on one line."""
    last = PurePath(name.replace("\\", "/").replace("\0", "")).name
    return printable(encodable(last), _LONGEST_NAME) or _STEM


def _described(id: str, name: str, path: Path, video: Video, *, is_uploaded: bool) -> StoredVideo:
    state, now = path.stat(), int(time.time())
    try:
        subtitles = subtitles_of(path)  # In the video, else next to it.
    except (SubtitleError, OSError):
        subtitles = None  # Several languages, of which nobody chose one.
    name = _printable_name(name) if is_uploaded else printable(encodable(name), _LONGEST_NAME)
    size, changed, seconds = state.st_size, state.st_mtime_ns, video.duration
    return StoredVideo(
        id, name, path, size, changed, now, seconds, video.width, video.height, is_uploaded, subtitles
    )


def _opened(path: Path, name: str) -> Video:
    try:
        return Video.open(path)
    except VideoError as error:
        # The client's name for the file, and not the server's.
        message = str(error).replace(str(path), _printable_name(name))
        raise Problem(400, message, code="no_video", param="file") from error


def _has_changed(stored: StoredVideo) -> bool:
    try:
        state = stored.path.stat()
    except OSError:
        return True
    return (state.st_size, state.st_mtime_ns) != (stored.bytes, stored.modified)


def _read(home: Path) -> StoredVideo | None:
    """The video in a folder of the store. None after an upload that was cut off, whose folder is removed, and
    for a record that cannot be read, whose video is left there."""
    if not (home / _ABOUT).exists():
        with suppress(OSError):
            shutil.rmtree(home)
        return None
    try:
        stored = _RECORD.validate_json((home / _ABOUT).read_bytes())
    except (OSError, ValueError) as error:
        reason = printable(str(error), _LONGEST_NAME)
        logger.warning("%s: cannot be read; its video is not available (%s)", home / _ABOUT, reason)
        return None
    # The folder of the server may have been moved since.
    subtitles = None if stored.subtitles is None else _in(home, stored.subtitles)
    return replace(stored, path=_in(home, stored.path), subtitles=subtitles)


def _in(home: Path, path: Path) -> Path:
    """A recorded path, or its place in the store now."""
    return home / path.name if path.parent.name == home.name else path


class VideoFolders:
    """The operator's folders, whose videos clients name by relative path. No path leads out of them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folder.expanduser().resolve() for folder in folders)

    def resolve(self, relative: str) -> Path:
        """The file at a relative path, through links that stay inside the folders. Raises Problem for
        anything else, without revealing what else is on this machine."""
        printed = printable(relative, _LONGEST_NAME)
        if not self._folders:
            message = "this server offers no folders of videos; upload the video to /v1/files"
            raise Problem(400, message, code="no_folders")
        path = PurePosixPath(relative)
        if not relative or "\0" in relative or path.is_absolute() or ".." in path.parts:
            message = f"{printed!r}: not a relative path inside the server's folders"
            raise Problem(400, message, code="outside_folders")
        for folder in self._folders:
            try:
                file = (folder / path).resolve()
                if self._holds(file) and file.is_file():
                    return file
            except (OSError, RuntimeError, ValueError):  # Names that are too long, circles of links.
                continue
        raise Problem(404, f"{printed}: no such file in the server's folders", code="no_video")

    def videos(self) -> list[dict[str, Any]]:
        """The videos in the folders, by relative path; at most the first 10,000."""
        videos: dict[str, dict[str, Any]] = {}
        found = (
            (file.relative_to(folder).as_posix(), file)
            for folder in self._folders
            for file in files_below(folder)
            if file.suffix.lower() in VIDEO_ENDINGS and self._holds(file.resolve())
        )
        for relative, file in islice(found, _MOST_VIDEOS):
            # Of equal paths the first folder's counts, as in `resolve`.
            videos.setdefault(relative, {"path": relative, "bytes": file.stat().st_size})
        return list(videos.values())

    def _holds(self, file: Path) -> bool:
        return any(file.is_relative_to(folder) for folder in self._folders)
