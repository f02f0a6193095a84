"""Texts without what belongs to one machine: folders, and addresses of its network.

Videos are named below `videos/`, wherever they lie here, so that another machine can put them there. Other
absolute paths are reduced to their last part, and addresses that only this network knows to localhost.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from videopro.commands.publishing.artefacts import VIDEOS
from videopro.storage import parse_json

_ROOTS = (
    *("home", "root", "Users", "mnt", "data", "tmp", "var", "opt", "srv", "media", "scratch", "work", "nfs"),
    *("workspace", "storage", "usr", "gpfs", "lustre", "project", "projects", "private", "dev/shm", "net"),
)
_PATH = re.compile(rf"(?<![\w.~/:<-])/(?:{'|'.join(_ROOTS)})(?:/[^\s\"'\\,;:()<>|\[\]]+)+")
"""An absolute path inside a text, such as a message."""
_WHOLE_PATH = re.compile(r'(?<=")(?:/[^"\\\s/]+){2,}/?(?=")')
"""A JSON text that is nothing but an absolute path."""
_ABSOLUTE = re.compile(r"(?:/[^/\n]+){2,}/?|~/[^\n]+")
_ADDRESS = re.compile(r"(?P<scheme>https?://)(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+)")
_LOCAL_ENDINGS = (".local", ".internal", ".lan", ".localdomain", ".home", ".corp", ".intranet")


class Portable:
    """Replaces paths and addresses in texts, and counts what it replaced."""

    def __init__(self, videos: Iterable[str]) -> None:
        """`videos`: absolute paths of video and subtitle files."""
        self.counts: Counter[str] = Counter()
        self._replaced = _variants(_video_folders(videos))
        longest = sorted(self._replaced, key=len, reverse=True)
        self._paths = re.compile("|".join(map(re.escape, longest))) if longest else None

    def json_lines(self, text: str) -> str:
        """JSON lines for another machine; other bytes than those of paths and addresses stay as they are."""
        return _WHOLE_PATH.sub(self._last_part, self.text(text))

    def text(self, text: str) -> str:
        """The text for another machine."""
        if self._paths is not None:
            text = self._paths.sub(self._replace, text)
        text = _PATH.sub(self._last_part, text)
        return _ADDRESS.sub(self._public_address, text)

    def value(self, value: Any) -> Any:
        """A value of YAML or JSON for another machine."""
        if isinstance(value, Mapping):
            return {
                self.text(key) if isinstance(key, str) else key: self.value(each)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if not isinstance(value, str):
            return value
        text = self.text(value)
        # A folder below a root that `_ROOTS` does not list. A single part may be a token, such as /think.
        if text == value and _ABSOLUTE.fullmatch(value):
            self.counts["paths"] += 1
            return PurePath(value).name
        return text

    def _replace(self, match: re.Match[str]) -> str:
        self.counts["paths"] += 1
        return self._replaced[match[0]]

    def _last_part(self, match: re.Match[str]) -> str:
        self.counts["paths"] += 1
        return PurePath(match[0]).name

    def _public_address(self, match: re.Match[str]) -> str:
        if _is_public(match["host"]):
            return match[0]
        self.counts["addresses"] += 1
        return f"{match['scheme']}localhost"


def named_files(lines: Iterable[bytes]) -> Iterator[str]:
    """The paths of videos and subtitles in rows of a dataset, or in traces."""
    for line in lines:
        try:
            row = parse_json(line) if line.strip() else None
        except ValueError:
            continue
        if not isinstance(row, dict):
            continue
        video, videos = row.get("video"), row.get("videos")
        named = [video, row.get("subtitles"), *(videos if isinstance(videos, list) else ())]
        if isinstance(video, dict):
            named += [video.get("path"), video.get("subtitles")]
        yield from (name for name in named if isinstance(name, str) and name)


def _video_folders(paths: Iterable[str]) -> dict[str, str]:
    """For each folder of videos, its name below `videos/`: that of its path which the folders do not have in
    common. Where they have no more in common than the root or the folders of users, they are numbered."""
    files = sorted(set(paths))
    folders = sorted({str(PurePath(path).parent) for path in files})
    if not folders:
        return {}
    common = os.path.commonpath(folders)
    if common != "/" and Path(common) not in Path.home().parents:
        below = {folder: os.path.relpath(folder, common) for folder in folders}
    elif len({PurePath(path).name for path in files}) == len(files):
        below = dict.fromkeys(folders, ".")
    else:
        below = {folder: str(number) for number, folder in enumerate(folders)}
    return {
        f"{folder}/": f"{VIDEOS}/" + ("" if name == "." else f"{name}/") for folder, name in below.items()
    }


def _variants(names: Mapping[str, str]) -> dict[str, str]:
    """The texts and their forms inside JSON, with letters that are not ASCII escaped or not."""
    variants = dict(names)
    for text, name in names.items():
        for ascii in (True, False):
            variants[json.dumps(text, ensure_ascii=ascii)[1:-1]] = json.dumps(name, ensure_ascii=ascii)[1:-1]
    return variants


def _is_public(host: str) -> bool:
    """Whether an address means the same on every machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host and not host.endswith(_LOCAL_ENDINGS)
    return address.is_loopback or address.is_global
