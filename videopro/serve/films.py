"""The films of a server: those that were uploaded, and those in the operator's folders that were asked about.

    FOLDER/films/file-0123.../about.json      what is known of it
    FOLDER/films/file-0123.../film.mp4        an uploaded film
    FOLDER/films/file-0123.../film.srt        subtitles that were uploaded for it

An uploaded film's id is made of the hash of its content, so the same film is the same film, however often it
comes. A film in a folder stays where it is, and is known by its path, its size and its time.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
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
    FILM_ENDINGS,
    SUBTITLE_ENDINGS,
    Video,
    files_below,
    load_subtitles,
    subtitles_of,
)

ID_PREFIX = "file-"
FOLDER_PREFIX = "folder:"
_MOST_FILMS = 10_000
"""That are listed of the folders."""
_DIGITS = 32
_HOME = re.compile(rf"{ID_PREFIX}[0-9a-f]{{{_DIGITS}}}")
_PART = "part-"
_ABOUT = "about.json"
_STEM = "film"
_LONGEST_NAME = 200
_KEPT_VIDEOS = 64


@dataclass(frozen=True)
class Film:
    """A film that can be asked about."""

    id: str
    name: str
    """As its owner calls it; for show only."""
    path: Path
    bytes: int
    modified: int
    """In ns, as the file system has it, of a film in a folder: one that changes is another film."""
    created_at: int
    """Seconds since 1970, when the server first saw it."""
    duration: float
    """Seconds."""
    width: int
    height: int
    is_uploaded: bool
    subtitles: Path | None = None
    """A subtitle file, or the film itself for a track in it; None: there are none."""


_RECORD = TypeAdapter(Film)


class FilmStore:
    """The films in a folder, which is made if it is missing. Thread-safe.

    `limit_bytes`: of all uploaded films together. `folders`: the operator's. Raises OSError where the folder
    cannot be written.
    """

    def __init__(self, folder: Path, limit_bytes: int, folders: Sequence[Path] = ()) -> None:
        self.incoming = folder / "incoming"
        """Where uploads are written until they are whole."""
        self.limit_bytes = limit_bytes
        self.folders = FilmFolders(folders)
        self._folder = folder / "films"
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        """Held while a film is put in its place: two clients may bring the same one."""
        self._kept: dict[Path | None, int] = {}
        """Bytes for which room is kept, by the file that is being uploaded."""
        self.incoming.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        # What a killed server left. By their names: the folder may hold files of somebody else.
        for left in self.incoming.glob(f"{_PART}*"):
            left.unlink(missing_ok=True)
        homes = [home for home in sorted(self._folder.iterdir()) if _HOME.fullmatch(home.name)]
        self._films = {film.id: film for film in map(_read, homes) if film is not None}

    @property
    def size(self) -> int:
        """What the uploaded films take."""
        with self._lock:
            return sum(film.bytes for film in self._films.values() if film.is_uploaded)

    @contextmanager
    def receive(self, size: int) -> Iterator[Path]:
        """Where a file of at most `size` bytes is uploaded; afterwards it is gone, unless it was added.
        Raises Problem where there is no room for it within the limit."""
        part = self.incoming / f"{_PART}{uuid.uuid4().hex}"
        with self._lock:
            room = self.limit_bytes - self.size - sum(self._kept.values())
            if size > room:
                message = (
                    f"the file is larger than {max(0, room):,} bytes, the room that is left for films here; "
                    "delete one that is no longer needed, or ask the operator"
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

    def all(self) -> list[Film]:
        """All films, newest first."""
        with self._lock:
            return sorted(self._films.values(), key=lambda film: film.created_at, reverse=True)

    def get(self, id: str) -> Film:
        """A film. Raises Problem for an unknown id, and for a file in a folder that is gone or has changed
        since."""
        with self._lock:
            film = self._films.get(id)
        if film is None:
            message = f"there is no video {printable(id, 60)!r} here; name one that is here, or its path"
            raise Problem(404, message, code="no_film")
        if _has_changed(film):
            message = f"{film.name}: is gone from its folder or has changed there; name it by its path again"
            raise Problem(410, message, code="film_changed")
        return film

    def add(self, part: Path, name: str) -> Film:
        """Keep an uploaded file (`receive`), or recognise a film that is here. Raises Problem for a file that
        is no film."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        id = _id(digest)
        with self._writing:
            if id in self._films and not _has_changed(self._films[id]):
                return self._films[id]
            video = _opened(part, name)
            ending = PurePath(name).suffix.lower()
            home = self._folder / id
            home.mkdir(exist_ok=True)
            path = home / f"{_STEM}{ending if ending in FILM_ENDINGS else '.mp4'}"
            part.replace(path)
            for own in MODELS.working():
                own.mark_copy(path, digest)
            return self._keep(_film(id, name, path, video, is_uploaded=True), part)

    def from_folder(self, relative: str) -> Film:
        """The film at a relative path of the operator's folders. Raises Problem."""
        return self.at(self.folders.resolve(relative), relative)

    def at(self, path: Path, name: str) -> Film:
        """The film in a file of this machine, which stays there. Raises Problem."""
        state = path.stat()
        # Not by its content, which takes long to read.
        id = _id(hashlib.sha256(f"{path}\0{state.st_size}\0{state.st_mtime_ns}".encode()).hexdigest())
        with self._writing:
            if id in self._films:
                return self._films[id]
            film = _film(id, name, path, _opened(path, name), is_uploaded=False)
            (self._folder / id).mkdir(exist_ok=True)
            return self._keep(film)

    def set_subtitles(self, id: str, name: str, part: Path) -> Film:
        """Keep uploaded subtitles for a film, in place of those that it has. Raises Problem for a file that
        is none."""
        with self._writing:
            film = self.get(id)
            ending = PurePath(name).suffix.lower()
            # Named by its format before it is read.
            new = part.replace(part.with_suffix(ending if ending in SUBTITLE_ENDINGS else ".srt"))
            try:
                load_subtitles(new, duration=film.duration)
                home = self._folder / film.id
                home.mkdir(exist_ok=True)
                path = new.replace(home / f"{_STEM}{new.suffix}")
            except SubtitleError as error:
                message = str(error).replace(str(new), _printable_name(name))
                raise Problem(400, message, code="no_subtitles", param="file") from error
            finally:
                new.unlink(missing_ok=True)
            return self._keep(replace(film, subtitles=path))

    def delete(self, id: str) -> None:
        """Forget a film; an uploaded one is removed, one in a folder stays there. Raises Problem for an
        unknown id."""
        with self._writing:
            with self._lock:
                film = self._films.pop(id, None)
            if film is None:
                raise Problem(404, f"there is no video {printable(id, 60)!r} here", code="no_film")
            shutil.rmtree(self._folder / film.id, ignore_errors=True)

    def _keep(self, film: Film, part: Path | None = None) -> Film:
        """Remember a film; from now on it takes the room that was kept for `part`."""
        write_atomically(self._folder / film.id / _ABOUT, _RECORD.dump_json(film, indent=1))
        with self._lock:
            self._films[film.id] = film
            self._kept.pop(part, None)
        return film


def video_of(film: Film) -> Video:
    """The film, opened once. Raises VideoError."""
    return _open(film.path, film.modified)


@lru_cache(_KEPT_VIDEOS)
def _open(path: Path, modified: int) -> Video:
    return Video.open(path)


def _id(digest: str) -> str:
    return ID_PREFIX + digest[:_DIGITS]


def _printable_name(name: str) -> str:
    """A name that a client gave, as it can be shown and stored: the last part of a path, on one line."""
    last = PurePath(name.replace("\\", "/").replace("\0", "")).name
    return printable(encodable(last), _LONGEST_NAME) or _STEM


def _film(id: str, name: str, path: Path, video: Video, *, is_uploaded: bool) -> Film:
    state = path.stat()
    try:
        subtitles = subtitles_of(path)  # In the film, else beside it.
    except (SubtitleError, OSError):
        subtitles = None  # Several languages, of which nobody chose one.
    return Film(
        id,
        _printable_name(name) if is_uploaded else printable(encodable(name), _LONGEST_NAME),
        path,
        state.st_size,
        state.st_mtime_ns,
        int(time.time()),
        video.duration,
        video.width,
        video.height,
        is_uploaded,
        subtitles,
    )


def _opened(path: Path, name: str) -> Video:
    try:
        return Video.open(path)
    except VideoError as error:
        # The client's name for the file, and not the server's.
        message = str(error).replace(str(path), _printable_name(name))
        raise Problem(400, message, code="no_film", param="file") from error


def _has_changed(film: Film) -> bool:
    try:
        state = film.path.stat()
    except OSError:
        return True
    return (state.st_size, state.st_mtime_ns) != (film.bytes, film.modified)


def _read(home: Path) -> Film | None:
    """The film in a folder of the store. None if an upload was cut off there, whose folder is removed, and if
    the record cannot be read, whose film is left where it is."""
    if not (home / _ABOUT).exists():
        with suppress(OSError):
            shutil.rmtree(home)
        return None
    try:
        film = _RECORD.validate_json((home / _ABOUT).read_bytes())
    except (OSError, ValueError) as error:
        print(f"{home / _ABOUT}: cannot be read, so its film is not offered ({error!r})", file=sys.stderr)
        return None
    # The folder of the server may have been moved since.
    subtitles = None if film.subtitles is None else _in(home, film.subtitles)
    return replace(film, path=_in(home, film.path), subtitles=subtitles)


def _in(home: Path, path: Path) -> Path:
    """A recorded path; of a file of the store where it is now."""
    return home / path.name if path.parent.name == home.name else path


class FilmFolders:
    """The folders that the operator named, whose films clients name by relative paths. No path leads out of
    them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folder.expanduser().resolve() for folder in folders)

    def resolve(self, relative: str) -> Path:
        """The file at a relative path, through links that stay inside of the folders. Raises Problem for
        anything else; the message never says what is elsewhere on this machine."""
        printed = printable(relative, _LONGEST_NAME)
        if not self._folders:
            message = "this server offers no folders of videos; upload the video to /v1/files"
            raise Problem(400, message, code="no_folders")
        path = PurePosixPath(relative)
        if not relative or "\0" in relative or path.is_absolute() or ".." in path.parts:
            message = f"{printed!r}: is no relative path inside of the server's folders"
            raise Problem(400, message, code="outside_folders")
        for folder in self._folders:
            try:
                file = (folder / path).resolve()
                if self._holds(file) and file.is_file():
                    return file
            except (OSError, RuntimeError, ValueError):  # Names that are too long, circles of links.
                continue
        raise Problem(404, f"{printed}: there is no such file in the server's folders", code="no_film")

    def films(self) -> list[dict[str, Any]]:
        """The films in the folders, by relative path; of very many the first."""
        films: dict[str, dict[str, Any]] = {}
        found = (
            (file.relative_to(folder).as_posix(), file)
            for folder in self._folders
            for file in files_below(folder)
            if file.suffix.lower() in FILM_ENDINGS and self._holds(file.resolve())
        )
        for relative, file in islice(found, _MOST_FILMS):
            # Of equal paths the first folder's counts, as in `resolve`.
            films.setdefault(relative, {"path": relative, "bytes": file.stat().st_size})
        return list(films.values())

    def _holds(self, file: Path) -> bool:
        return any(file.is_relative_to(folder) for folder in self._folders)
