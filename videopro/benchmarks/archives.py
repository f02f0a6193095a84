"""The archives in a benchmark's folder that are not unpacked yet, and the command that unpacks each.

Benchmarks come as one archive, several archives, or an archive split into pieces. The target folder follows
from the file names in the archive, if they can be read, and from where the benchmark's loader looks.
"""

from __future__ import annotations

import re
import shlex
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import islice
from pathlib import Path, PurePosixPath

from videopro.video import VIDEO_ENDINGS

_SUBTITLE_ENDINGS = (".srt", ".vtt", ".ass", ".json")
_KIND = r"zip|7z|pkl|tgz|tar(?:\.(?:gz|bz2|xz))?"
# videos.zip; videos.tar.part.aa, videos.zip.001, videos.tar.gz.part0: pieces of one archive.
_PIECE = r"[._-](?:part)?[._-]?(?:\d{1,4}|[a-z]{2})"
_NAME = re.compile(rf"(?P<whole>.+\.(?P<kind>{_KIND}))(?:{_PIECE})?")
_JOINED = "joined-"
UNPACKING = ".unpacking"
"""Ending of the file that marks an archive while it is being unpacked."""
# video_chunk_0.zip: one of several archives, or a piece of one (CG-Bench).
_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)\.zip")


@dataclass(frozen=True)
class Archive:
    """An archive that is not unpacked."""

    name: str
    """Its path in the folder; with several pieces, the path of the first."""
    command: str
    """The command that unpacks it, for a shell."""
    has_subtitles: bool
    """Whether it contains subtitles, judging by the names in it or its own; otherwise, videos are assumed."""
    marker: Path
    """A file that exists while the archive is being unpacked. If it remains, unpacking was interrupted: the
    last file is truncated, and the others are uncertain."""

    @property
    def is_begun(self) -> bool:
        """Whether unpacking it was interrupted."""
        return self.marker.exists()


def packed(root: Path, videos: Path, subtitles: Path | None) -> list[Archive]:
    """The archives below `root` that are not unpacked yet. `videos` and `subtitles`: the folders where the
    loader looks first."""
    archives = []
    for pieces, kind in _archives(root):
        first = pieces[0]
        members = _members(pieces, kind)
        files = [name for name in members if name.suffix.lower() in VIDEO_ENDINGS]
        texts = [name for name in members if name.suffix.lower() in _SUBTITLE_ENDINGS]
        of_subtitles = not files and bool(texts or "sub" in first.name.lower())
        files = files or texts
        folder = subtitles if of_subtitles and subtitles is not None else videos
        target = _target(root, folder, files[0].parent if files else None)
        marker = first.with_name(first.name + UNPACKING)
        begun = marker.exists()
        # Unpacked already, and the archive kept.
        if files and all((target / name).exists() for name in files) and not begun:
            continue
        # After an interruption nobody knows which files are whole, so all are written again.
        command = _command(pieces, kind, target, overwrites=begun)
        if begun:
            command += f" && rm {shlex.quote(str(marker))}"
        archives.append(Archive(str(first.relative_to(root)), command, of_subtitles, marker))
    return archives


def _archives(root: Path) -> Iterator[tuple[Sequence[Path], str]]:
    """The pieces of each archive in their order, and its kind."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    kinds = {}
    for path in sorted(root.rglob("*")):
        if (match := _NAME.fullmatch(path.name)) and path.is_file() and not _is_joined(path):
            groups.setdefault((path.parent, match["whole"]), []).append(path)
            kinds[path.parent, match["whole"]] = match["kind"]
    for paths in groups.values():
        # part.2 comes before part.10.
        paths.sort(key=lambda path: (len(path.name), path.name))
    pieces: dict[tuple[Path, str], list[Path]] = {}
    for (folder, archive), paths in groups.items():
        number = _NUMBERED.fullmatch(archive)
        if kinds[folder, archive] == "zip" and number and paths == [folder / archive]:
            pieces.setdefault((folder, number["before"]), []).append(folder / archive)
        elif (folder / archive) in paths and len(paths) > 1:
            yield [folder / archive], kinds[folder, archive]  # already joined
        else:
            yield paths, kinds[folder, archive]
    for paths in pieces.values():
        # Only the last piece of a zip file that was cut ends like one.
        if all(map(zipfile.is_zipfile, paths)):
            for path in paths:
                yield [path], "zip"
        else:
            yield sorted(paths, key=_number), "zip"


def _is_joined(path: Path) -> bool:
    """Whether a file was partly joined, by an interrupted command, from pieces next to it."""
    whole = path.name.removeprefix(_JOINED)
    return whole != path.name and any(path.parent.glob(f"{escape(whole)}*"))


def _number(path: Path) -> int:
    match = _NUMBERED.fullmatch(path.name)
    return int(match["number"]) if match else 0


# Members of a tar file that are read: their headers lie between the videos.
_FIRST = 20


def _members(pieces: Sequence[Path], kind: str) -> list[PurePosixPath]:
    """Names of files in an archive, as far as they can be read at once: all of a zip file's, the first ones
    of a tar file's, the first of an archive in pieces."""
    names: list[PurePosixPath] = []
    try:
        if kind == "zip" and len(pieces) == 1:
            with zipfile.ZipFile(pieces[0]) as file:
                names = [PurePosixPath(name) for name in file.namelist() if not name.endswith("/")]
        elif kind == "zip":
            names = _first_of_zip(pieces[0])
        elif kind.startswith("t"):
            with tarfile.open(pieces[0]) as tar:
                for member in islice(tar, _FIRST if len(pieces) == 1 and kind == "tar" else 2):
                    if member.isfile():
                        names.append(PurePosixPath(member.name))
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError):
        # It may be damaged or cut off: its command will say so.
        return names
    return names


def _first_of_zip(piece: Path) -> list[PurePosixPath]:
    """The first file in a zip file, from the headers at its beginning (those of folders hold no data)."""
    with piece.open("rb") as file:
        # Enough for the headers of any folders that come first.
        head = file.read(1 << 16)
    offset = 0
    while head[offset : offset + 4] == b"PK\x03\x04" and len(head) >= offset + 30:
        length, extra = (int.from_bytes(head[offset + at : offset + at + 2], "little") for at in (26, 28))
        name = head[offset + 30 : offset + 30 + length].decode("utf-8", "replace")
        if not name.endswith("/"):
            return [PurePosixPath(name)] if len(head) >= offset + 30 + length else []
        offset += 30 + length + extra
    return []


def _target(root: Path, folder: Path, inside: PurePosixPath | None) -> Path:
    """Where to unpack an archive so that its files, in the folder `inside` it, end up in `folder`, or at
    least below `root`."""
    if inside is None or not inside.parts:
        return folder
    try:
        parts = folder.relative_to(root).parts
    except ValueError:
        return root
    count = len(inside.parts)
    return root.joinpath(*parts[:-count]) if parts[-count:] == inside.parts else root


def _command(pieces: Sequence[Path], kind: str, target: Path, *, overwrites: bool) -> str:
    """The command that unpacks an archive."""
    to, first = shlex.quote(str(target)), shlex.quote(str(pieces[0]))
    names = " ".join(shlex.quote(str(piece)) for piece in pieces)
    if kind == "pkl":
        # A pickle can run anything when it is read: only those of a source that is trusted.
        script = (
            "import pathlib, pickle, sys; [pathlib.Path(sys.argv[2], name + '.mp4').write_bytes(video) "
            "for name, video in pickle.load(open(sys.argv[1], 'rb')).items()]"
        )
        return f'mkdir -p {to} && python -c "{script}" {first} {to}'
    if kind.startswith("t"):
        compressed = {"tgz": "z", "tar.gz": "z", "tar.bz2": "j", "tar.xz": "J"}.get(kind, "")
        if len(pieces) == 1:
            return f"mkdir -p {to} && tar -xf {first} -C {to}"
        return f"mkdir -p {to} && cat {names} | tar -x{compressed}f - -C {to}"
    if kind == "7z":
        return f"7z x {first} -o{to}" + (" -y" if overwrites else "")
    unzip = f"unzip {'-o' if overwrites else '-n'}"
    if len(pieces) == 1:
        return f"{unzip} {first} -d {to}"
    joined = shlex.quote(str(pieces[0].with_name(_JOINED + _NAME.sub(r"\g<whole>", pieces[0].name))))
    return f"cat {names} > {joined} && {unzip} {joined} -d {to} && rm {joined}"
