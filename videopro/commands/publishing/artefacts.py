"""Recognizes what a pushed or pulled folder is, by the records that training, synthesis and runs write into
it, and which of its files belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from videopro.cli import read_yaml
from videopro.errors import ConfigError, reading_file
from videopro.runs import RunFolder
from videopro.storage import parse_json

Kind = Literal["adapter", "planner", "dataset", "run"]
RepoType = Literal["model", "dataset"]

VIDEOS = "videos"
"""The folder that a dataset or run on the hub names its videos in; it is not on the hub itself."""
MODEL_RECORD, TRAINING_RECORD = "videopro.json", "training_record.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
INDEX = "model.safetensors.index.json"
SFT, GRPO = "sft.jsonl", "grpo.jsonl"
CARD_JSON, CARD_MD = "card.json", "CARD.md"
"""The data card, as videopro synthesize writes it (docs/train.md, Data)."""

_MODEL_FILES = (
    *(
        MODEL_RECORD,
        TRAINING_RECORD,
        "tokenizer.json",
        "tokenizer_config.json",
        "tokenizer.model",
        "vocab.json",
    ),
    *(
        "merges.txt",
        "special_tokens_map.json",
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
    ),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"),
)
_FILES: Mapping[Kind, tuple[str, ...]] = {
    "adapter": (ADAPTER_CONFIG, ADAPTER_WEIGHTS, *_MODEL_FILES),
    "planner": ("config.json", "generation_config.json", INDEX, "*.safetensors", *_MODEL_FILES),
    "dataset": (
        SFT,
        GRPO,
        "held_out.jsonl",
        CARD_JSON,
        CARD_MD,
        "config.yaml",
        "records.jsonl",
        "prompts.jsonl",
    ),
    "run": ("config.yaml", "traces.jsonl", "prompts.jsonl", "summary.json", "grades.jsonl"),
}
"""Patterns of the files that belong to each kind. Only these are uploaded: other files are unknown, or a
pickle (which runs code when loaded), a checkpoint, a log, or a video."""


@dataclass(frozen=True)
class Artefact:
    """A folder of one kind, with its records."""

    kind: Kind
    folder: Path

    @property
    def repo_type(self) -> RepoType:
        """What the hub calls a repository of this kind."""
        return "model" if self.kind in ("adapter", "planner") else "dataset"

    def files(self) -> list[str]:
        """The names of the files that belong to it, in alphabetical order."""
        paths = (path for pattern in _FILES[self.kind] for path in self.folder.glob(pattern))
        return sorted({path.name for path in paths if path.is_file()})

    def left_out(self) -> list[str]:
        """The other files and folders in it, in alphabetical order."""
        belonging = set(self.files())
        others = (path for path in sorted(self.folder.iterdir()) if path.name not in belonging)
        return [path.name + ("/" if path.is_dir() else "") for path in others]

    def json(self, name: str) -> dict[str, Any]:
        """The object in one of its files; empty without the file. Raises ConfigError for a broken one."""
        path = self.folder / name
        if not path.is_file():
            return {}
        with reading_file(f"{path}:", "restore it", ConfigError):
            content = parse_json(path.read_bytes(), infinite=True)
            if not isinstance(content, dict):
                raise ValueError("not a JSON object")
        return content


def read_artefact(folder: Path) -> Artefact:
    """The artefact in a folder. Raises ConfigError for an unknown kind of folder, and for an incomplete
    one."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: no such folder; pass the folder of an adapter, a planner, a dataset or a run"
        )
    if (folder / ADAPTER_CONFIG).is_file():
        return _checked_model(Artefact("adapter", folder), [ADAPTER_WEIGHTS])
    if (folder / "config.json").is_file():
        planner = Artefact("planner", folder)
        parts = planner.json(INDEX).get("weight_map") or {"": "model.safetensors"}
        return _checked_model(planner, sorted(set(parts.values())))
    dataset = Artefact("dataset", folder)
    if "about" in dataset.json(CARD_JSON):
        if not any((folder / name).is_file() for name in (SFT, GRPO)):
            raise ConfigError(f"{folder}: has a {CARD_JSON}, but neither {SFT} nor {GRPO}; write it again")
        return dataset
    if (folder / "config.yaml").is_file():
        return _checked_run(Artefact("run", folder))
    raise ConfigError(
        f"{folder}: is not an adapter ({ADAPTER_CONFIG}), planner (config.json), dataset ({CARD_JSON}) or "
        "run (config.yaml); pass a folder that videopro sft, grpo, merge, synthesize or infer wrote"
    )


def _complete(artefact: Artefact, needed: list[str]) -> Artefact:
    missing = [name for name in needed if not (artefact.folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{artefact.folder}: {', '.join(missing)} is missing for a {artefact.kind}; finish the "
            "command that writes it"
        )
    return artefact


def _checked_model(artefact: Artefact, weights: list[str]) -> Artefact:
    if not any((artefact.folder / name).is_file() for name in (MODEL_RECORD, TRAINING_RECORD)):
        raise ConfigError(
            f"{artefact.folder}: has no {MODEL_RECORD} or {TRAINING_RECORD}, which record how it was "
            "trained; push a folder that videopro sft, grpo or merge wrote"
        )
    return _complete(artefact, weights)


def _checked_run(artefact: Artefact) -> Artefact:
    folder, settings = artefact.folder, read_yaml(artefact.folder / "config.yaml")
    if "run_key" not in settings:
        raise ConfigError(f"{folder / 'config.yaml'}: has no run_key, so it is not the config of a run")
    if "synthesis" in (settings.get("identity") or {}):
        raise ConfigError(
            f"{folder}: is a synthesis without datasets; re-run its videopro synthesize command, which "
            "writes them at the end"
        )
    # A trace that is being written would go up in half.
    if RunFolder(folder).is_running():
        raise ConfigError(
            f"{folder}: a command is still answering questions of this run; push when it is done"
        )
    return _complete(artefact, ["traces.jsonl", "summary.json"])
