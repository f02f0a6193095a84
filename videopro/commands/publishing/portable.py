"""An artefact's files for upload: texts without paths and addresses of this machine, and without keys.

Videos are named below `videos/`, wherever they are on this machine, so that another machine can put them
there. Other absolute paths are reduced to their last part, and addresses of the local network to localhost.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from huggingface_hub import get_token

from videopro.commands.publishing.artefacts import CARD_JSON, CARD_MD, VIDEOS, Artefact
from videopro.errors import ConfigError
from videopro.storage import read_json_lines

_TEXTS = (".json", ".jsonl", ".yaml", ".md", ".txt", ".jinja")
_VERBATIM = ("tokenizer.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json")
"""Texts of the tokenizer: anything that looks like a path in them is part of the vocabulary."""

_ROOTS = (
    *("home", "root", "Users", "mnt", "data", "tmp", "var", "opt", "srv", "media", "scratch", "work", "nfs"),
    *("workspace", "storage", "usr", "gpfs", "lustre", "project", "projects", "private", "dev/shm", "net"),
)
_PART = r'(?:[^"\\\s/]|\\u[0-9a-f]{4})+'
_PATH = re.compile(
    rf"""
      (?<=")(?:~|/{_PART})(?:/{_PART})+/?(?=")  # all of a JSON text
    | (?<=[:-]\ )(?:~|/[^\s"'/]+)(?:/[^\s"'/]+)+/?$  # all of a value of YAML
    | (?<![\w.~/:<-])/(?:{"|".join(_ROOTS)})(?:/[^\s"'\\,;:()<>|\[\]]+)+  # inside a message
    """,
    re.VERBOSE | re.MULTILINE,
)
"""An absolute path of two parts at least: a single one may be a token, such as /think."""
_ADDRESS = re.compile(r"(?P<scheme>https?://)(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+)")
_LOCAL_ENDINGS = (".local", ".internal", ".lan", ".localdomain", ".home", ".corp", ".intranet")


@dataclass(frozen=True)
class StagedFile:
    """A file to upload. `text`: its content, if that differs from the file's own."""

    source: Path
    text: str | None = None

    @property
    def name(self) -> str:
        """Its name in the repository."""
        return self.source.name

    def read(self) -> str:
        """The text to upload. Raises ConfigError."""
        try:
            return self.source.read_text(encoding="utf-8") if self.text is None else self.text
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.source}: cannot be read as text ({error}); restore it") from error

    @property
    def size(self) -> int:
        """In bytes."""
        return self.source.stat().st_size if self.text is None else len(self.text.encode())


def stage(artefact: Artefact, names: Mapping[str, str]) -> list[StagedFile]:
    """The files of an artefact for upload; writes nothing. `names`: other texts of this machine, and their
    replacements. Raises VideoProError for a row that is not JSON, and, listing all of them, for secrets."""
    rows = [artefact.folder / name for name in artefact.files() if name.endswith(".jsonl")]
    videos = {path for file in rows for path in named_files(file) if path.startswith("/")}
    names = {**names, **video_folders(videos)}
    staged = []
    digests: dict[str, str] = {}
    for name in artefact.files():
        file = StagedFile(artefact.folder / name)
        if file.source.suffix in _TEXTS and name not in _VERBATIM:
            before = file.read()
            after = portable(before, names)
            # Byte for byte the same where nothing changes.
            if after != before:
                file = replace(file, text=after)
                digests[_digest(before)] = _digest(after)
        staged.append(file)
    # The data card names the rows as they go up.
    staged = [_with_digests(file, digests) if file.name in (CARD_JSON, CARD_MD) else file for file in staged]
    # Last: a replacement may also have removed one.
    refuse_secrets((file.source, file.read()) for file in staged if file.source.suffix in _TEXTS)
    return staged


def portable(text: str, names: Mapping[str, str]) -> str:
    """The text for another machine. `names`: texts of this machine, and their replacements."""
    if names:
        escaped = _with_escapes(names)
        known = re.compile("|".join(map(re.escape, sorted(escaped, key=len, reverse=True))))
        text = known.sub(lambda match: escaped[match[0]], text)
    text = _PATH.sub(lambda match: PurePath(match[0]).name, text)
    return _ADDRESS.sub(
        lambda match: match[0] if _is_public(match["host"]) else f"{match['scheme']}localhost", text
    )


def named_files(rows: Path) -> Iterator[str]:
    """The paths of videos and subtitles in rows of a dataset, or in traces. Raises DatasetError for a row
    that is not a JSON object."""
    for _, _, row in read_json_lines(rows, "JSON lines"):
        video, videos = row.get("video"), row.get("videos")
        named = [video, row.get("subtitles"), *(videos if isinstance(videos, list) else ())]
        if isinstance(video, dict):
            named += [video.get("path"), video.get("subtitles")]
        yield from (name for name in named if isinstance(name, str) and name)


def video_folders(paths: Iterable[str]) -> dict[str, str]:
    """For each folder of videos, its name below `videos/`: the part of its path that the folders do not
    share. If they share only the root or the users' folders, they are numbered."""
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


def _with_escapes(names: Mapping[str, str]) -> dict[str, str]:
    """The texts and their forms inside JSON, with letters that are not ASCII escaped or not."""
    forms = dict(names)
    for text, name in names.items():
        for ascii in (True, False):
            forms[json.dumps(text, ensure_ascii=ascii)[1:-1]] = json.dumps(name, ensure_ascii=ascii)[1:-1]
    return forms


def _is_public(host: str) -> bool:
    """Whether an address means the same on every machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host and not host.endswith(_LOCAL_ENDINGS)
    return address.is_loopback or address.is_global


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _with_digests(file: StagedFile, digests: Mapping[str, str]) -> StagedFile:
    text = file.read()
    for before, after in digests.items():
        text = text.replace(before, after)
    return file if text == file.read() else replace(file, text=text)


# ---- keys that must not go up ------------------------------------------------------------------------------

_KEY_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS")
_SHORTEST_KEY = 12
"""A shorter value of such a variable may occur in a text by chance."""
_SECRETS: Mapping[str, re.Pattern[str]] = {
    "a hub token": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "an API key": re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"),
    "an AWS key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:ghp|gho|ghs|ghu|github_pat)_[A-Za-z0-9_]{30,}\b"),
    "a Google key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an address with a password": re.compile(r"[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/@\"']+@"),
    "an Authorization header": re.compile(r"(?i)\bauthorization\W{1,6}(?:bearer|basic) [a-z0-9+/_=.-]{8,}"),
}


def refuse_secrets(texts: Iterable[tuple[Path, str]]) -> None:
    """Raise ConfigError, listing all, if there are secrets in the (file, text) to upload: values of this
    environment's keys, and texts that look like a key. No part of a secret is shown."""
    keys = {f"the value of {name}": key for name, key in os.environ.items() if name.endswith(_KEY_ENDINGS)}
    keys["your hub token"] = get_token() or ""
    patterns = {
        name: re.compile(re.escape(key.strip()))
        for name, key in keys.items()
        if len(key.strip()) >= _SHORTEST_KEY
    }
    lines = []
    for path, text in texts:
        matches = ((pattern.search(text), name) for name, pattern in {**patterns, **_SECRETS}.items())
        spans = sorted((match.start(), name) for match, name in matches if match is not None)
        lines += [f"{path}, line {text.count(chr(10), 0, start) + 1}: {name}" for start, name in spans]
    if lines:
        raise ConfigError(
            f"nothing was pushed, because files contain secrets: {'; '.join(lines)}; remove them, and "
            "replace the keys, which others may have read"
        )
