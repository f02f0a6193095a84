"""The files as they go up: those that name this machine are rewritten, the others are links."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from videopro.cli import read_yaml
from videopro.commands.publishing.artefacts import CARD_JSON, CARD_MD, GRPO, SFT, Artefact
from videopro.commands.publishing.portable import Portable, named_files
from videopro.commands.publishing.secrets import environment_keys, find_secrets
from videopro.errors import ConfigError
from videopro.storage import parse_json

_TEXTS = (".json", ".jsonl", ".yaml", ".md", ".txt", ".jinja")
_VERBATIM = ("tokenizer.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json")
"""Texts of the tokenizer: whatever looks like a path in them is a part of the vocabulary."""
_SINGULAR = {"paths": "path", "addresses": "address"}


@dataclass(frozen=True)
class StagedFile:
    """A file that goes up. `text`: its content, if that differs from the file's own."""

    name: str
    source: Path
    text: str | None = None
    changes: str = ""
    """What was replaced, in words."""

    def read(self) -> str:
        """The text that goes up. Raises OSError."""
        return self.source.read_text(encoding="utf-8") if self.text is None else self.text

    @property
    def size(self) -> int:
        """In bytes."""
        return self.source.stat().st_size if self.text is None else len(self.text.encode())


def stage(artefact: Artefact, *, base: str = "") -> list[StagedFile]:
    """The files of an artefact as they go up; writes nothing. `base`: the hub's name of the model that it was
    trained on. Raises ConfigError if a secret is in one of them, naming all."""
    names = artefact.files()
    videos: set[str] = set()
    for name in names:
        if name.endswith(".jsonl"):
            lines = (artefact.folder / name).read_bytes().split(b"\n")
            if artefact.kind == "dataset":
                _check_rows(artefact.folder / name, lines)
            videos |= {path for path in named_files(lines) if path.startswith("/")}
    staged = [_staged(artefact, name, videos, base) for name in names]
    # After paths were replaced: the card names what goes up, not what lies here.
    staged = _with_digests(artefact, staged)
    # Last, over the texts as they go up: a replacement may also have removed one.
    refuse_secrets((file.source, file.read()) for file in staged if file.source.suffix in _TEXTS)
    return staged


def _check_rows(path: Path, lines: Sequence[bytes]) -> None:
    """Raise ConfigError for a line that is no JSON object: whoever pulls the dataset could not read it."""
    for number, line in enumerate(lines, 1):
        try:
            is_row = not line.strip() or isinstance(parse_json(line), dict)
        except ValueError:
            is_row = False
        if not is_row:
            raise ConfigError(
                f"{path}, line {number}: is no JSON object; restore the file, or write it again with the "
                "command that made it"
            )


def write_staged(staged: Sequence[StagedFile], folder: Path) -> None:
    """Write the files, or links to those that are as they were, into an empty folder. Raises OSError."""
    for file in staged:
        if file.text is None:
            (folder / file.name).symlink_to(file.source.resolve())
        else:
            (folder / file.name).write_text(file.text, encoding="utf-8")


def _staged(artefact: Artefact, name: str, videos: set[str], base: str) -> StagedFile:
    source = artefact.folder / name
    if source.suffix not in _TEXTS or name in _VERBATIM:
        return StagedFile(name, source)
    try:
        before = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot be read as text ({error}); restore it") from error
    portable = Portable(videos)
    if source.suffix == ".json":
        content = _with_base(name, portable.value(parse_json(before, infinite=True)), base)
        # Byte for byte where nothing changes: another indentation would be another file to whoever pulls it.
        same = content == parse_json(before, infinite=True)
        after = before if same else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    elif source.suffix == ".yaml":
        content = portable.value(read_yaml(source))
        after = yaml.safe_dump(content, sort_keys=False, allow_unicode=True) if portable.counts else before
    else:
        after = portable.json_lines(before) if source.suffix == ".jsonl" else portable.text(before)
    counts = [f"{count} {noun if count > 1 else _SINGULAR[noun]}" for noun, count in portable.counts.items()]
    changes = f"{' and '.join(counts)} of this machine replaced" if counts else ""
    return StagedFile(name, source, None if after == before else after, changes)


def _with_base(name: str, content: Any, base: str) -> Any:
    """A record with the hub's name of its base in place of a folder's."""
    if not base or not isinstance(content, dict):
        return content
    if name == "adapter_config.json":
        return {**content, "base_model_name_or_path": base}
    if name != "videopro.json":
        return content
    if isinstance(content.get("base"), Mapping):
        content = {**content, "base": {**content["base"], "name": base}}
    planner = content.get("planner")
    if isinstance(planner, Mapping) and planner.get("base"):
        content = {**content, "planner": {**planner, "base": base}}
    return content


def _with_digests(artefact: Artefact, staged: list[StagedFile]) -> list[StagedFile]:
    """The data card with the digests of the rows as they go up."""
    texts = {file.name: file.text for file in staged if file.name in (SFT, GRPO) and file.text is not None}
    if not texts:
        return staged
    before = artefact.json(CARD_JSON).get("sha256")
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    if not isinstance(before, Mapping):
        return staged
    for name, digest in digests.items():
        old = before.get(name)
        if not isinstance(old, str) or not old:
            continue
        staged = [_replaced(file, old, digest) for file in staged]
    return staged


def _replaced(file: StagedFile, old: str, new: str) -> StagedFile:
    if file.name not in (CARD_JSON, CARD_MD):
        return file
    text = file.read()
    if old not in text:
        return file
    return StagedFile(
        file.name,
        file.source,
        text.replace(old, new),
        file.changes or "with the digests of the rows as they go up",
    )


def refuse_secrets(texts: Iterable[tuple[Path, str]]) -> None:
    """Raise ConfigError, naming all, if there are secrets in (file, text) that would go up."""
    keys = environment_keys()
    lines = [
        f"{path}, line {number}: {secret}"
        for path, text in texts
        for number, secret in find_secrets(text, keys)
    ]
    fix = "remove them there, and replace the keys, which others may have read"
    if len(lines) == 1:
        raise ConfigError(f"nothing was pushed, as a secret would go up: {lines[0]}; {fix}")
    if lines:
        listing = "\n".join(f"  {line}" for line in lines)
        raise ConfigError(f"nothing was pushed, as secrets would go up:\n{listing}\n{fix}")
