"""The archives in a benchmark's folder, and unpacking them.

Benchmarks come as one archive, several archives, or an archive split into pieces. Pieces are read as one file
and never joined on the disk. A file appears under its name when it is whole, so unpacking can be interrupted
anywhere and done again. The target folder follows from the file names in the archive and from where the
benchmark's loader looks.
"""

from __future__ import annotations

import io
import lzma
import re
import shutil
import tarfile
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import IO, Any

from videopro.benchmarks.hub import Files, Manifest
from videopro.errors import BenchmarkError, first_of, reason_of
from videopro.storage import write_atomically
from videopro.video import VIDEO_ENDINGS

_SUBTITLE_ENDINGS = (".srt", ".vtt", ".ass", ".json")
_KIND = re.compile(r"zip|pkl|tgz|tar(?:\.(?:gz|bz2|xz))?")
# videos.tar.part.aa, videos.zip.001, videos.tar.gz.part0, videos.tar.gz.part-a: pieces of one archive.
_PIECE = r"[._-](?:part[._-]?[a-z]|(?:part)?[._-]?(?:\d{1,4}|[a-z]{2}))"
_NAME = re.compile(rf"(?P<whole>.+\.(?:{_KIND.pattern}))(?:{_PIECE})?")
# video_chunk_0.zip: one of several archives, or a piece of one (CG-Bench).
_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)\.zip")
_UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError, zlib.error, lzma.LZMAError),
    *(zipfile.BadZipFile, tarfile.TarError),
)
"""Errors about a damaged or encrypted archive, and about the disk."""


class Pieces(io.RawIOBase):
    """The pieces of a file, read as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self.ends = list(accumulate(path.stat().st_size for path in paths))
        """Where each piece ends."""
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.ends[-1])[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        number = bisect_right(self.ends, self._at)
        if number == len(self.ends):
            return 0
        # Not kept open: a piece that is deleted while it is open keeps its room on the disk.
        with self._paths[number].open("rb", buffering=0) as file:
            file.seek(self._at - (0, *self.ends)[number])
            count = file.readinto(buffer)
        self._at += count
        return count


@dataclass(frozen=True)
class Archive:
    """An archive that is not unpacked."""

    name: str
    """Its path in the folder; with several pieces, the path of the first."""
    kind: str
    """Its ending: zip, tar, tar.gz, ..."""
    pieces: tuple[Path, ...]
    target: Path
    """The folder to unpack it into."""
    has_subtitles: bool
    """Whether it contains subtitles, judging by the names in it or its own; otherwise, videos are assumed."""
    missing: tuple[str, ...] = ()
    """Names of pieces that the hub has and the folder does not."""

    def __str__(self) -> str:
        if self.missing:
            return f"{self.name}: missing pieces: {first_of(self.missing)}; download them"
        return self.name + (f" ({len(self.pieces)} pieces)" if len(self.pieces) > 1 else "")


def packed(
    root: Path, videos: Path, subtitles: Path | None, hub: Manifest, *, kept: bool = False
) -> list[Archive]:
    """The archives below `root` that are not unpacked yet; with `kept`, also those that are. `videos` and
    `subtitles`: the folders where the loader looks first. `hub` tells which pieces an archive has, and which
    archives nobody asks for."""
    archives = []
    for pieces, kind in _archives(root):
        first, known = pieces[0], _published(pieces[0], hub)
        if known is not None and known.holds == "other":
            continue
        members = _members(pieces, kind)
        files = [name for name in members if name.suffix.lower() in VIDEO_ENDINGS]
        texts = [name for name in members if name.suffix.lower() in _SUBTITLE_ENDINGS]
        of_subtitles = not files and bool(texts or "sub" in first.name.lower())
        files = files or texts
        folder = subtitles if of_subtitles and subtitles is not None else videos
        target = _target(root, folder, files[0].parent if files else None)
        begun = _marker(pieces).exists()
        if files and all(_size(target / name) for name in files) and not begun and not kept:
            continue
        is_piece = re.fullmatch(rf".+\.(?:{_KIND.pattern})", first.name) is None
        expected = [PurePosixPath(name).name for name in known.names] if known and is_piece else []
        # Those before the position were removed when their files were unpacked.
        position, _ = _position(pieces)
        expected = expected[expected.index(position) if position in expected else 0 :]
        missing = tuple(name for name in expected if not first.with_name(name).exists())
        name = str(first.relative_to(root))
        archives.append(Archive(name, kind, tuple(pieces), target, of_subtitles, missing))
    return archives


def _published(path: Path, hub: Manifest) -> Files | None:
    """The files of the hub's that an archive is of."""
    packed = (each for repository in hub.repositories for each in repository.files if each.is_packed)
    return next((each for each in packed if fnmatch(path.name, PurePosixPath(each.pattern).name)), None)


def unpack(archive: Archive, *, remove: bool = False) -> None:
    """Unpack an archive; files that are there with their size stay. With `remove`, its pieces are deleted:
    those of a zip or an uncompressed tar file as soon as their files are unpacked, others at the end. Raises
    BenchmarkError."""
    if archive.missing:
        raise BenchmarkError(str(archive))
    if archive.kind == "pkl":
        raise BenchmarkError(
            f"{archive.name}: not unpacked, because loading a pickle can run any code; if you trust its "
            f"source, load it, and write each video to {archive.target}"
        )
    pieces, marker = archive.pieces, _marker(archive.pieces)
    try:
        marker.touch()
        name, offset = _position(pieces)
        pieces = pieces[[piece.name for piece in pieces].index(name) :] if name else pieces
        raw, removed = Pieces(pieces), 0
        raw.seek(offset)
        for file, size, opened, end in _files(io.BufferedReader(raw, 1 << 20), archive.kind):
            path = archive.target / _inside(archive, file)
            # Without `remove`, what is there stays: it may be a smaller copy.
            if not _size(path) or (remove and _size(path) != size):
                _write(path, opened)
            while remove and removed < len(pieces) - 1 and raw.ends[removed] <= end:
                removed += 1
                write_atomically(marker, f"{end - raw.ends[removed - 1]} {pieces[removed].name}")
                pieces[removed - 1].unlink()
        for piece in archive.pieces if remove else ():
            piece.unlink(missing_ok=True)
        marker.unlink()
    except _UNREADABLE as error:
        raise BenchmarkError(
            f"{archive.name}: cannot be unpacked ({reason_of(error)}); free disk space or download it again, "
            "and repeat the command"
        ) from error


def _inside(archive: Archive, name: str) -> PurePosixPath:
    """A file's path in an archive. Raises BenchmarkError for one that leads out of the target."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise BenchmarkError(f"{archive.name}: has a file {name!r} for outside its folder; do not use it")
    return path


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _write(path: Path, opened: Callable[[], IO[bytes] | None]) -> None:
    """Write a file of an archive under another name, and rename it when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with opened() or io.BytesIO() as source, part.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _files(
    stream: io.BufferedReader, kind: str
) -> Iterator[tuple[str, int, Callable[[], IO[bytes] | None], int]]:
    """The files in an archive, in their order in it: name, size, a function that opens it, and up to where
    the archive is no longer needed after it (0: unknown). Links, devices and macOS's own files are left
    out."""
    if kind == "zip":
        with zipfile.ZipFile(stream) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
            ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
            for info, end in zip(infos, ends, strict=False):
                # Offsets below 0 are in pieces that were removed.
                if info.header_offset >= 0 and not info.is_dir() and "__MACOSX" not in info.filename:
                    yield info.filename, info.file_size, partial(archive.open, info), end
        return
    with tarfile.open(fileobj=stream) as tar:
        for member in tar:
            if member.isfile() and "__MACOSX" not in member.name:
                end = tar.offset if kind == "tar" else 0
                yield member.name, member.size, partial(tar.extractfile, member), end


def _marker(pieces: Sequence[Path]) -> Path:
    """A file that is there while an archive is unpacked, with the position from where it is still needed."""
    return pieces[-1].with_name(f"{pieces[-1].name}.unpacking")


def _position(pieces: Sequence[Path]) -> tuple[str, int]:
    """The first piece that is still needed, and an offset in it; "" for all of them."""
    marker = _marker(pieces)
    offset, _, name = (marker.read_text(encoding="utf-8") if marker.exists() else "").partition(" ")
    return name, int(offset or 0)


def _archives(root: Path) -> Iterator[tuple[list[Path], str]]:
    """The pieces of each archive in their order, and its kind."""
    found: dict[tuple[Path, str], list[Path]] = {}
    for path in sorted(root.rglob("*")):
        if (match := _NAME.fullmatch(path.name)) and path.is_file():
            number = _NUMBERED.fullmatch(path.name)
            found.setdefault((path.parent, number["before"] if number else match["whole"]), []).append(path)
    for (folder, whole), paths in found.items():
        # A whole archive next to pieces was joined from them. part.2 comes before part.10.
        joined = folder / whole in paths
        pieces = [folder / whole] if joined else sorted(paths, key=lambda path: (len(path.name), path.name))
        kind = _KIND.findall(pieces[0].name)[-1]
        # Only the last piece of a zip file that was cut ends like one.
        if kind == "zip" and any(map(zipfile.is_zipfile, pieces[:-1])):
            yield from (([path], kind) for path in pieces)
        else:
            yield pieces, kind


def _members(pieces: Sequence[Path], kind: str) -> list[PurePosixPath]:
    """Names of files in an archive, as far as they can be read at once: of a compressed tar file the first
    one's."""
    names: list[PurePosixPath] = []
    # It may be damaged or incomplete: unpacking it will say so.
    with suppress(*_UNREADABLE):
        for name, *_ in _files(io.BufferedReader(Pieces(pieces)), kind):
            names.append(PurePosixPath(name))
            if kind not in ("zip", "tar"):
                break
    return names


def _target(root: Path, folder: Path, inside: PurePosixPath | None) -> Path:
    """Where to unpack an archive so that its files, in the folder `inside` it, end up in `folder`, or at
    least below `root`."""
    if inside is None or not inside.parts:
        return folder
    parts = folder.relative_to(root).parts if folder.is_relative_to(root) else ()
    count = len(inside.parts)
    return root.joinpath(*parts[:-count]) if parts[-count:] == inside.parts else root
