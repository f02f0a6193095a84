"""Whether what was pulled is of formats that this version reads, and the commands that use it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from videopro.backbones import read_model_record
from videopro.commands.publishing.artefacts import CARD_JSON, GRPO, SFT, TRAINING_RECORD, Artefact
from videopro.commands.publishing.bases import find_base
from videopro.commands.publishing.data_card import train_commands
from videopro.commands.publishing.model_card import use_command
from videopro.errors import ConfigError, DatasetError
from videopro.runs import RunFolder
from videopro.storage import read_json_lines
from videopro.traces import read_traces

_NEEDED: Mapping[str, tuple[str, ...]] = {SFT: ("messages",), GRPO: ("prompt", "question", "answer", "kind")}
"""The fields that each row of a file has."""


def check_readable(artefact: Artefact) -> None:
    """Read it as the commands do that use it. Raises VideoProError for what this version cannot read."""
    if artefact.kind == "run":
        RunFolder(artefact.folder).read()
    elif artefact.kind == "dataset":
        _check_dataset(artefact)
    else:
        read_model_record(artefact.folder)
        artefact.json(TRAINING_RECORD)
        for path in sorted(artefact.folder.glob("*.safetensors")):
            _check_weights(path)


def _check_weights(path: Path) -> None:
    try:
        # The header says where each tensor is, and is refused if the file is shorter.
        with safe_open(path, "pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); pull it again") from error


def _check_dataset(artefact: Artefact) -> None:
    digests = artefact.json(CARD_JSON).get("sha256") or {}
    for name, fields in _NEEDED.items():
        path = artefact.folder / name
        if not path.is_file():
            continue
        if name in digests and hashlib.sha256(path.read_bytes()).hexdigest() != digests[name]:
            raise ConfigError(f"{path}: is not the file that {CARD_JSON} describes; pull both again")
        for _, where, row in read_json_lines(path, f"the {name} of a dataset"):
            missing = [field for field in fields if field not in row]
            if missing:
                raise DatasetError(f"{where}: has no {' and no '.join(missing)}; this version cannot read it")
    records = artefact.folder / "records.jsonl"
    if records.is_file():
        read_traces(records)


def next_commands(artefact: Artefact) -> list[str]:
    """Commands to try on it."""
    folder = str(artefact.folder)
    if artefact.kind == "run":
        return [f"videopro view {folder} --open", f"videopro report {folder} --output report"]
    if artefact.kind == "dataset":
        return train_commands(folder, {name: 1 for name in _NEEDED if (artefact.folder / name).is_file()})
    return [use_command(artefact.kind, folder, find_base(artefact))]
